"""agentctl completion: words that exist, and a script that bash really completes with."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from agent.cli.completion import WITH_SLUG, WORDS, script
from agent.cli.main import COMMANDS, main, parser_for

FORMS = {"incidents": {"show", "export"}}
"""Commands whose first word is no fixed choice of the parser."""


def test_every_fixed_first_word_is_offered() -> None:
    """Those that the parsers take, of every command, and no other."""
    fixed: dict[str, set[str]] = {}
    for name, (module, _) in COMMANDS.items():
        parser = parser_for(name)
        import_module(f"agent.cli.{module}").add_arguments(parser)
        first = next(iter(parser._get_positional_actions()), None)
        if first is not None and first.choices is not None:
            fixed[name] = set(first.choices)
    assert {name: set(words.split()) for name, words in WORDS.items()} == fixed | FORMS


def test_commands_that_take_a_deployment_exist() -> None:
    assert set(WITH_SLUG.split()) <= set(COMMANDS)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("ver",), "verify version"),
        (("drill", "s"), "stall slow-start"),
        (("drill", "stall", ""), "mine other"),
        (("config", ""), "check show"),
        (("verify", "o"), "other"),
        (("incidents", ""), "show export mine other"),
        (("incidents", "sh"), "show"),
        (("plan", "/etc/passw"), "/etc/passwd"),
    ],
)
def test_bash_completes(tmp_path: Path, words: tuple[str, ...], offered: str) -> None:
    """With an agentctl beside it that knows two deployments."""
    bash = shutil.which("bash")
    assert bash is not None
    program = tmp_path / "agentctl"
    program.write_text("#!/bin/sh\nprintf 'mine  busy\\n  why\\nother  ready\\n'\n")
    program.chmod(0o755)
    asked = f'{script("bash")}\nCOMP_WORDS=(agentctl "$@"); COMP_CWORD=$#; _agentctl; echo "${{COMPREPLY[*]}}"'
    done = subprocess.run(
        [bash, "-c", asked, "bash", *words],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    found = set(done.stdout.split())
    assert {word for word in offered.split() if word.startswith(words[-1])} <= found
    assert not any(word for word in found if not word.startswith(words[-1]))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_nothing_is_left_to_fill_in(shell: str) -> None:
    text = script(shell)
    assert "@" not in text.replace("[@]", "")
    assert "slow-start" in text


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"shell": "fish", "script": script("fish")}
