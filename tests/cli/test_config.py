"""agentctl config check: the site file, and the profiles beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.cli.main import main


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site file whose profiles lie in a folder of its own."""
    (tmp_path / "profiles").mkdir()
    config = tmp_path / "agent.yaml"
    config.write_text(f"paths: {{profiles: {tmp_path / 'profiles'}}}\n")
    return config


def test_good_files_are_named(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = site.parent / "profiles" / "mine.yaml"
    profile.write_text("watch: {stall: 5m}\n")
    assert main(["config", "check", "--config", str(site), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"ok": True, "files": [str(site), str(profile)]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("wach: {stall: 5m}", "unknown key 'wach', did you mean 'watch'?"),
        ("watch: {stal: 5m}", "no such window, did you mean 'stall'?"),
        ("watch: {stall: abc}", "watch.stall.value: cannot read 'abc' as a duration"),
        ("watch: [", "column 1: did not find"),
        ("recipe: {slug: other}", "it says that it is for 'other'"),
    ],
)
def test_a_bad_profile_is_an_error_that_names_its_file(
    site: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    profile = site.parent / "profiles" / "mine.yaml"
    profile.write_text(text)
    assert main(["config", "check", "--config", str(site)]) == 1
    error = capsys.readouterr().err
    assert str(profile) in error
    assert told in error
    assert "function-" not in error
    assert "tuple[" not in error
