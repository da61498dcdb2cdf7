"""What is written, wherever it goes: no stranger's control of a terminal, no traceback for a stream that is gone."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from agent.cli.main import main
from agent.cli.output import json_text
from agent.cli.screen import COLOURS, CannotWrite, ReaderGone, Screen, plain
from agent.preflight import render
from tests.plan.build import small

HOSTILE = "a\x1b[2J\x1b]0;owned\x07b\x9b31mc\r\x7f\u202ed\u200be\nf — é"
LAUNCH = "docker run --name caf\u00e9 --label t=\u2014 img\n"


def agentctl(*words: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, which is where streams are closed, full or in another encoding."""
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 60} | how
    command = [sys.executable, "-m", "agent.cli.main", *words]
    done: Any = subprocess.run(command, check=False, **how)
    return cast("subprocess.CompletedProcess[bytes]", done)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (HOSTILE, "a[2J]0;ownedb31mcde\nf — é"),
        ("tab\tand newline\n", "tab\tand newline\n"),
        ("\x1b[32mgreen\x1b[0m", "[32mgreen[0m"),
        ("half \ud800 a pair", "half  a pair"),
    ],
)
def test_controls_of_a_terminal_are_left_out(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_a_terminal_gets_our_own_colours_and_no_other_sequence() -> None:
    text = "".join(f"{colour}x" for colour in COLOURS)
    assert plain(text, colours=True) == text
    assert plain("\x1b[32mgood\x1b[0m \x1b[8mhidden\x1b[1A", colours=True) == "\x1b[32mgood\x1b[0m [8mhidden[1A"


def test_the_levels_of_findings_are_colours_that_pass() -> None:
    assert {f"\x1b[{number}m" for number in render.COLOURS.values()} < set(COLOURS)


def test_json_keeps_every_character_as_an_escape() -> None:
    made = json_text({"text": HOSTILE}, indent=2)
    assert json.loads(made) == {"text": HOSTILE}
    assert plain(made) == made
    assert "é" in made


@pytest.mark.parametrize("action", [("recipes", "show"), ("plan",)])
def test_a_hostile_document_shows_no_control_on_any_stream(
    action: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = {**small()["config"], "launch": ["docker", "run", "--name", "x\x1b[31m", "-e", f"A={HOSTILE}", "img"]}
    hardware = [{"card": HOSTILE, "vendor": HOSTILE, "device_count": 2}]
    document = small() | {"title": HOSTILE, "summary": HOSTILE, "hardware": hardware, "config": config}
    (tmp_path / "hostile.json").write_text(json.dumps(document))
    (tmp_path / "agent.yaml").write_text(f"paths: {{state: {tmp_path}, cache: {tmp_path}}}\nsources: []\n")
    words = [*action, str(tmp_path / "hostile.json"), "--config", str(tmp_path / "agent.yaml")]
    assert main(words) == 0
    out, err = capfd.readouterr()
    assert "ownedb" in out
    assert (plain(out), plain(err)) == (out, err)
    assert main([*words, "-o", "json"]) == 0
    out, err = capfd.readouterr()
    assert (plain(out), err) == (out, "")
    assert json.loads(out)["title"] == HOSTILE


@pytest.mark.parametrize("words", [["plan", "a\x1b[31m\nhint: b"], ["a\x1b[31m\nb"], ["status", "--url", "\x9b"]])
def test_an_error_is_one_line_and_a_hint(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) != 0
    out, err = capsys.readouterr()
    assert out == ""
    assert plain(err) == err
    first, second = err.splitlines()
    assert first.startswith("error: cannot ")
    assert second.startswith("hint: ")


@pytest.mark.parametrize(
    "words",
    [
        ["plan"],
        ["plan", "x", "--bogus"],
        ["plan", "x", "-o", "yaml"],
        ["recipes", "search", "--vram", "many"],
        ["convert", "-", "--to", "nothing"],
        ["completion", "tcsh"],
        ["image", "list"],
    ],
    ids=" ".join,
)
def test_a_wrong_call_is_an_error_like_any_other(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: cannot do that: ")
    assert second == f"hint: agentctl {words[0]} --help says more"
    assert main([*words, "-o", "json"] if "yaml" not in words else ["-o", "json", *words[:2], "--bogus"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["error"]["code"] == "usage"


FORMS = ("-o json", "-ojson", "-o=json", "--output json", "--output=json", "-qo json", "-qvojson")


@pytest.mark.parametrize("form", [form.split() for form in FORMS], ids=FORMS)
def test_json_is_asked_for_in_every_spelling_and_place(form: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([*form, "plan", "no slug"], ["plan", *form, "no slug"], ["plan", "no slug", *form]):
        assert main(words) == 4
        out, err = capsys.readouterr()
        assert out == ""
        assert json.loads(err)["error"]["code"] == "recipe.not_found"


def test_the_last_word_on_the_form_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-o", "json", "plan", "no slug", "-o", "text"]) == 4
    assert capsys.readouterr().err.startswith("error: ")


def test_a_recipe_file_that_is_not_there_is_no_such_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "/nowhere/recipe.json"]) == 4
    assert "there is no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("errno", "raised"), [(28, CannotWrite), (32, ReaderGone), (5, CannotWrite)], ids=["full", "pipe", "broken"]
)
def test_a_stream_that_takes_nothing_is_told_in_our_words(errno: int, raised: type[Exception]) -> None:
    class Broken(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(errno, os.strerror(errno))

    with pytest.raises(raised):
        Screen(Broken()).write("x")


@pytest.mark.parametrize(("place", "code"), [("/dev/full", 1), (None, 0)], ids=["full", "closed"])
def test_an_output_that_is_full_or_closed_ends_in_no_traceback(place: str | None, code: int) -> None:
    redirect = f">{place}" if place else ">&-"
    command = f'exec "{sys.executable}" -m agent.cli.main version {redirect}'
    done = subprocess.run(["sh", "-c", command], check=False, capture_output=True, timeout=60)
    assert done.returncode == code
    said = done.stderr.decode().splitlines()
    assert [line.split(":")[0] for line in said] == (["error", "hint"] if place else [])


def test_a_full_stderr_takes_nothing_from_the_exit_code() -> None:
    with open("/dev/full", "w") as full:
        assert agentctl("plan", "no slug", stderr=full).returncode == 4


@pytest.mark.parametrize("coding", ["ascii", "latin-1"])
def test_any_encoding_carries_an_answer(coding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": coding, "PYTHONUTF8": "0"}
    done = agentctl("convert", "-", "--to", "engine-api", input=LAUNCH.encode(), env=environment)
    assert done.returncode == 0
    assert json.loads(done.stdout.decode(coding))["name"] == "café"
    done = agentctl("convert", "-", "--to", "docker-run", input=LAUNCH.encode(), env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"t=?" in done.stdout


def test_a_stream_without_an_encoding_holds_every_character() -> None:
    held = io.StringIO()
    Screen(held).write("é —")
    assert held.getvalue() == "é —"


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        done = agentctl("--help", stdout=gone)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_sees_colours_unless_it_is_told_not_to(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text("sources: []\n")
    for extra, coloured in (([], True), (["--no-color"], False)):
        leader, follower = pty.openpty()
        words = ["config", "show", "--origin", "--config", str(tmp_path / "agent.yaml"), *extra]
        agentctl(*words, stdout=follower, env={**os.environ, "TERM": "xterm", "NO_COLOR": ""})
        os.close(follower)
        shown = os.read(leader, 100)
        os.close(leader)
        assert (b"\x1b[1m" in shown) is coloured
