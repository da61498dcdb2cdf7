"""Where a command looks for the agent: what the quick look says is what the parser says."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.cli.connect import DEFAULT_SOCKET, plain_socket, target
from agent.cli.main import parser_for
from agent.errors import UsageError
from agent.settings.load import load

FILES = {
    "block": "paths:\n  state: /s\n  socket: /run/x/a.sock\n  cache: /c\n",
    "block, quoted, commented": '# socket: no\npaths:\n  # socket: /no\n  socket: "/run/x/a.sock"\n',
    "braces": "paths: {state: /s, socket: /run/x/a.sock}\nruntime: process\n",
    "no key": "runtime: process\n",
    "another key of that name": "variables: {socket: /other}\npaths:\n  socket: /run/x/a.sock\n",
    "only another key of that name": "variables:\n  socket: /other\n",
    "policy mentions one": "policy:\n  docker_socket: true\npaths:\n  socket: /run/x/a.sock\n",
    "an anchor": "paths: &p\n  socket: &s /run/x/a.sock\n",
    "paths after": "listen: {port: 0}\npaths:\n    socket: /run/x/a.sock\nruntime: docker\n",
    "braces over lines": "paths: {\n  socket: /run/x/a.sock\n}\n",
}


@pytest.mark.parametrize("name", FILES)
def test_the_quick_look_and_the_parser_agree(name: str, tmp_path: Path) -> None:
    """Whatever the form, the same socket; where the look cannot tell, it leaves it to the parser."""
    file = tmp_path / "agent.yaml"
    file.write_text(FILES[name])
    arguments = parser_for("status").parse_args(["--config", str(file)])
    assert target(arguments).socket == str(load(file).settings.paths.socket)


def test_plain_forms_need_no_parser() -> None:
    """The forms that people write are read by the look alone."""
    assert plain_socket(FILES["block"]) == "/run/x/a.sock"
    assert plain_socket(FILES["braces"]) == "/run/x/a.sock"


def test_conf_d_counts(tmp_path: Path) -> None:
    """A later file's socket is the one in force."""
    (tmp_path / "agent.yaml").write_text("runtime: process\n")
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "10-paths.yaml").write_text("paths:\n  socket: /run/y.sock\n")
    arguments = parser_for("status").parse_args(["--config", str(tmp_path / "agent.yaml")])
    assert target(arguments).socket == "/run/y.sock"


def test_options_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--socket over the environment over the file over the default."""
    monkeypatch.delenv("RECIPE_AGENT_CONFIG", raising=False)
    monkeypatch.setenv("RECIPE_AGENT_SOCKET", "/env.sock")
    parser = parser_for("status")
    assert target(parser.parse_args(["--socket", "/option.sock"])).socket == "/option.sock"
    assert target(parser.parse_args([])).socket == "/env.sock"
    monkeypatch.delenv("RECIPE_AGENT_SOCKET")
    assert target(parser.parse_args(["--config", str(tmp_path / "none.yaml")])).socket == DEFAULT_SOCKET


def test_an_override_of_the_setting_counts_as_much_as_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECIPE_AGENT_SOCKET", raising=False)
    monkeypatch.setenv("RECIPE_AGENT_PATHS__SOCKET", "/unit.sock")
    assert target(parser_for("status").parse_args([])).socket == "/unit.sock"


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("http://rig1", "http://rig1:9465"),
        ("https://rig1:8443/", "https://rig1:8443"),
        ("https://[::1]:1", "https://[::1]:1"),
    ],
)
def test_a_url_is_plain_or_tls(url: str, where: str) -> None:
    assert str(target(parser_for("status").parse_args(["--url", url]))) == where


@pytest.mark.parametrize("url", ["rig1:9465", "ftp://rig1", "https://", "https://a b", "http://rig1/path"])
def test_another_url_is_an_error(url: str) -> None:
    with pytest.raises(UsageError, match="--url takes"):
        target(parser_for("status").parse_args(["--url", url]))
