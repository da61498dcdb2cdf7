"""`agentctl doctor` as people call it."""

from __future__ import annotations

import json
import stat
import tarfile
from pathlib import Path

import pytest

from agent.cli.main import main
from tests.lab.nvml import hosts
from tests.lab.nvml.standin import StandIn


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site of its own, that runs engines as processes."""
    (tmp_path / "state").mkdir()
    (tmp_path / "cache").mkdir()
    file = tmp_path / "agent.yaml"
    file.write_text(
        f"runtime: process\npaths: {{state: {tmp_path}/state, cache: {tmp_path}/cache}}\n"
        "variables: {HF_TOKEN: hf_averysecrettoken}\n"
    )
    return file


def test_json_has_every_finding(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "-o", "json", "--config", str(site)])
    document = json.loads(capsys.readouterr().out)
    assert code == (0 if document["ok"] else 1)
    assert {"config", "clock", "state", "permissions", "service"} <= {one["check"] for one in document["findings"]}


def test_a_lost_card_ends_with_1(nvml: StandIn, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nvml.show(hosts.lost_card(4, lost=2))
    assert main(["doctor", "--config", str(site)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("fail")
    assert "card 2" in out
    assert "\x1b[" not in out


def test_a_site_file_that_cannot_be_used_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agent.yaml").write_text("runtime: [\n")
    assert main(["doctor", "-o", "json", "--config", str(tmp_path / "agent.yaml")]) == 1
    findings = {one["check"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert findings["config"]["level"] == "fail"


def test_the_bundle_holds_all_but_secrets(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = site.with_name("bundle.tar.gz")
    main(["doctor", "--config", str(site), "--bundle", str(target), "-q"])
    assert capsys.readouterr().err == ""
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with tarfile.open(target) as archive:
        texts = {one.name: text_of(archive, one) for one in archive}
    assert {Path(name).name for name in texts} == {
        "doctor.txt",
        "doctor.json",
        "host.json",
        "settings.json",
        "versions.json",
    }
    assert not any("averysecret" in text for text in texts.values())
    assert json.loads(texts["recipe-agent-doctor/settings.json"])["runtime"] == "process"


def text_of(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> str:
    file = archive.extractfile(entry)
    assert file is not None
    return file.read().decode()


def test_a_bundle_that_cannot_be_written_is_an_error(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--config", str(site), "--bundle", "/nowhere/x.tar.gz"]) == 1
    assert "error: cannot write /nowhere/x.tar.gz" in capsys.readouterr().err
