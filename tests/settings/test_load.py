"""The site file: layers with origins, and errors that name the file, the key and the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.settings import load as loading
from agent.settings.load import BadSettings, load
from agent.settings.model import Settings
from tests.lab.pace import cost, second


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "agent.yaml"


def test_nothing_at_the_default_place_means_the_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loading, "DEFAULT_PATH", tmp_path / "none" / "agent.yaml")
    loaded = load(environ={})
    assert loaded.settings == Settings()
    assert loaded.files == ()


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="No such file"):
        load(tmp_path / "agent.yaml")


def test_the_environment_names_the_file(site: Path) -> None:
    site.write_text("runtime: process\n")
    assert load(environ={"RECIPE_AGENT_CONFIG": str(site)}).settings.runtime == "process"


def test_a_file_in_conf_d_wins_key_by_key_and_every_value_knows_its_file(site: Path) -> None:
    site.write_text("policy: {host_network: true, mount_roots: [/a]}\nvariables: {HOME: /home/op, PORT: 8095}\n")
    (site.parent / "conf.d").mkdir()
    late = site.parent / "conf.d" / "10-rig.yaml"
    late.write_text("policy: {mount_roots: [/b]}\n")
    loaded = load(site)
    rows = {key: (value, origin) for key, value, origin in loaded.rows()}
    assert rows["policy.host_network"] == (True, str(site))
    assert rows["policy.mount_roots"] == (["/b"], str(late))
    assert rows["variables.PORT"] == ("8095", str(site))
    assert rows["policy.host_ipc"] == (True, "default")
    assert loaded.files == (site, late)


def test_durations_and_sizes_may_be_words(site: Path) -> None:
    site.write_text("docker: {timeout_s: 1m}\nbudget: {backoff_s: [5s, 2m]}\nlogs: {engine_max_size: 10MB}\n")
    settings = load(site).settings
    assert settings.docker.timeout_s == 60
    assert settings.budget.backoff_s == (5, 120)
    assert settings.logs.engine_max_size == 10_000_000


def test_thousands_of_errors_are_told_as_a_few(site: Path) -> None:
    site.write_text("\n".join(f"key{n}: 1" for n in range(5000)))

    def refused() -> None:
        with pytest.raises(BadSettings, match="and 4997 more"):
            load(site)

    assert cost(refused) < 1.0 * second()


def test_a_section_with_nothing_below_it_says_nothing(site: Path) -> None:
    site.write_text("policy:\n  # host_ipc: true\n")
    assert load(site).settings == Settings()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("polcy: {}", "unknown key 'polcy', did you mean 'policy'?"),
        ("policy: {host_netwrk: true}", "unknown key 'policy.host_netwrk', did you mean 'host_network'?"),
        (
            "listen: {zzz: 1}",
            "unknown key 'listen.zzz', known here are address, burst, names, port,",
        ),
        ("docker: {timeout_s: soon}", "docker.timeout_s: cannot read 'soon' as a duration"),
        ("listen: {port: 70000}", "listen.port should be less than or equal to 65535"),
        ("paths: {state: state}", "paths.state: 'state' is relative"),
        ('sources: ["https://me:word@site.example/x"]', "sources[0]: a source with a user or a password"),
        ("sources: [localairecipes.com]", "sources[0]: 'localairecipes.com' is neither a URL"),
        ("policy: {host_ipc: 3}", "policy.host_ipc should be a valid boolean"),
        ("[1]", "a mapping of keys is expected"),
        ("a: [", "line 2, column 1"),
    ],
)
def test_an_error_names_the_file_the_key_and_the_way_out(site: Path, text: str, why: str) -> None:
    site.write_text(text)
    with pytest.raises(Exception, match=str(site)) as caught:
        load(site)
    assert why in str(caught.value)


def test_the_file_with_the_wrong_value_is_named_not_its_neighbour(site: Path) -> None:
    site.write_text("runtime: process\n")
    (site.parent / "conf.d").mkdir()
    late = site.parent / "conf.d" / "bad.yaml"
    late.write_text("image: never\n")
    with pytest.raises(BadSettings) as caught:
        load(site)
    assert str(late) in caught.value.text
    assert str(site) not in caught.value.text


def test_bytes_that_are_no_text_are_an_error(site: Path) -> None:
    site.write_bytes(b"a: \xff\xfe")
    with pytest.raises(BadSettings, match="no UTF-8 text"):
        load(site)
