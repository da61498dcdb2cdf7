"""`agentctl top`: fits every width, plain in a pipe, and leaves a terminal as it found it."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.cli.view import cut, middle, screen
from tests.e2e.rig import PROGRAMS, Rig, deployed, running
from tests.lab.nvml import hosts

SLUG = "deepseek-v4-1-flash-764b-on-4x-cmp-170hx-pp4-shadow-kv-exl3-2bpw"
PATIENCE_S = 30.0
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def deployment(**changes: Any) -> dict[str, Any]:
    return {
        "slug": SLUG,
        "state": "busy",
        "why": "2 requests run, 0 wait, 48.0 tokens/s; last progress 0 s ago",
        "since": "2026-11-30T14:18:58.452Z",
        "supervision": "active",
        "restarts": 0,
        "restart_budget": 3,
        "startup": {"phase": None, "ratio": None, "seconds": None},
        "progress": {},
        "figures": {"requests_running": 2, "kv_cache_usage_ratio": 0.25, "decode_tokens_per_second": 1048.2},
    } | changes


CARD = {"index": 0, "lost": None, "memory_used": 51 * hosts.GIB, "memory_total": 64 * hosts.GIB, "utilization": 0.8,
        "power_w": 180.0, "temperature_c": None}  # fmt: skip
HOST = {"gpus": [CARD, CARD | {"index": 1, "lost": "fell off the bus"}]}


@pytest.mark.parametrize("width", [1, 8, 20, 40, 60, 80, 132, 250])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """A line that wraps pushes the next ones off the screen."""
    lines = screen([deployment(), deployment(state="quarantined", supervision="observe")], HOST, width, None, False)
    assert lines
    assert max(map(len, lines)) <= width


def test_a_wide_terminal_shows_everything() -> None:
    """The whole name, all figures, and unknown as unknown."""
    lines = screen([deployment()], HOST, 140, None, False)
    assert lines[0].split() == ["STATE", "RECIPE", "RUN", "WAIT", "CLIENTS", "TOK/S", "KV"]
    assert lines[1].split() == ["busy", SLUG, "2", "?", "?", "1,048", "25%"]
    assert "51.0 of 64.0 GiB" in lines[3]
    assert "? °C" in lines[3]
    assert lines[4] == "GPU 1   lost: fell off the bus"


def test_a_narrow_one_keeps_what_matters_most() -> None:
    """State, both ends of the name, and what runs."""
    head, first, *_ = screen([deployment()], {}, 50, None, False)
    assert head.split() == ["STATE", "RECIPE", "RUN"]
    assert first.startswith("busy")
    assert "deepseek" in first
    assert "2bpw" in first


def test_a_low_one_says_what_it_left_out() -> None:
    """And gives up the cards first."""
    lines = screen([deployment(slug=f"d{number}") for number in range(9)], HOST, 100, 8, False)
    assert len(lines) <= 8
    assert lines[-1] == "… 6 more do not fit"


def test_a_start_shows_how_far_it_is() -> None:
    """And spent restarts and a changed supervision are said where one looks."""
    starting = deployment(state="starting", why="loads weights", restarts=1, restart_budget=2, supervision="paused",
                          startup={"phase": "load", "ratio": 0.5, "seconds": None})  # fmt: skip
    line = screen([starting], {}, 120, None, False)[2]
    assert (
        line == "  [paused] [1 of 3 restarts spent] [======>     ]  50% loads weights (since 2026-11-30T14:18:58.452Z)"
    )


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (cut("one\ntwo", 10), "one two"),
        (cut("abcdef", 4), "abc…"),
        (middle("abcdefgh", 5), "ab…gh"),
        (middle("abc", 5), "abc"),
    ],
)
def test_cutting_shows_that_it_was_done(shown: str, wanted: str) -> None:
    assert shown == wanted


class Glass:
    """A terminal of a size, with a program behind it."""

    def __init__(self, rig: Rig, *words: str, columns: int = 80, rows: int = 24, **environment: str) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.slave)
        env = {**rig.environment, "TERM": "xterm", **environment}
        self.program = subprocess.Popen(
            [PROGRAMS / "agentctl", *words],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env=env,
            start_new_session=True,
        )
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end in the middle of a letter

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def until(self, pattern: str) -> str:
        """Reads until the pattern has been written since the last look."""
        end, seen = time.monotonic() + PATIENCE_S, ""
        while not re.search(pattern, seen, re.DOTALL):
            assert time.monotonic() < end, f"{pattern!r} is not in {seen!r}"
            if select.select([self.master], [], [], 0.2)[0]:
                seen += self._decoder.decode(os.read(self.master, 65536))
        self.text += seen
        return seen

    def press(self, key: bytes) -> None:
        os.write(self.master, key)

    def close(self) -> None:
        if self.program.poll() is None:
            self.program.kill()
        self.program.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with running(tmp_path_factory.mktemp("top")) as rig:
        deployed(rig, "shown")
        yield rig


@pytest.fixture
def glass(served: Rig) -> Iterator[Any]:
    opened: list[Glass] = []

    def make(*words: str, **options: Any) -> Glass:
        opened.append(Glass(served, *words, **options))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.mark.slow
def test_it_lives_in_a_screen_of_its_own_and_gives_it_back(glass: Any) -> None:
    """Drawn again and again, ended by q, with cursor, colours and keys as before."""
    top = glass("top", "--every", "0.2")
    assert "\x1b[?1049h\x1b[?25l" in top.until("shown")
    assert re.search(r"\x1b\[32m(ready|busy)", top.text)
    for _ in range(3):
        top.until(r"\x1b\[H.*shown")
    top.press(b"x")
    top.until("shown")
    top.press(b"q")
    assert top.until(r"\x1b\[\?1049l").endswith("\x1b[?25h\x1b[?1049l")
    assert top.program.wait(10) == 0
    assert termios.tcgetattr(top.slave) == top.before


@pytest.mark.slow
def test_it_follows_the_size_of_the_terminal(glass: Any) -> None:
    """At once, and not with the next look."""
    top = glass("top", "--every", "60", columns=120)
    assert "CLIENTS" in top.until(r"shown.*\x1b\[J")  # the whole of the first drawing
    top.resize(44, 10)
    os.kill(top.program.pid, signal.SIGWINCH)
    drawn = ESCAPES.sub("", top.until(r"shown.*\x1b\[J"))
    assert "CLIENTS" not in drawn
    assert max(map(len, drawn.split("\r\n"))) <= 44


@pytest.mark.slow
@pytest.mark.parametrize(("words", "more"), [((), {"NO_COLOR": "1"}), (("--no-color",), {})], ids=["env", "option"])
def test_no_colour_where_none_is_wanted(glass: Any, words: tuple[str, ...], more: dict[str, str]) -> None:
    """The cursor moves, the text stays plain."""
    top = glass("top", "--every", "0.2", *words, **more)
    top.until("shown")
    top.press(b"q")
    top.until(r"\x1b\[\?1049l")
    assert not re.search(r"\x1b\[[0-9;]*m", top.text)


@pytest.mark.slow
def test_ctrl_c_leaves_the_terminal_whole(glass: Any) -> None:
    """As q does, with the exit code of an interruption."""
    top = glass("top")
    top.until("shown")
    os.kill(top.program.pid, signal.SIGINT)
    top.until(r"\x1b\[\?1049l")
    assert top.program.wait(10) == 130
    assert termios.tcgetattr(top.slave) == top.before


@pytest.mark.slow
def test_in_a_pipe_it_is_one_plain_look(served: Rig) -> None:
    """For scripts and for people who pipe."""
    said = served.ok("top")
    assert "\x1b" not in said.out
    assert said.out.count("shown") == 1
    assert said.out.split()[:2] == ["STATE", "RECIPE"]
    assert served.ok("top", "-o", "json").json[0]["slug"] == "shown"


@pytest.mark.slow
def test_an_agent_that_goes_is_waited_for(tmp_path: Path) -> None:
    """The view says so and goes on when it is back; with no agent from the start it is an error."""
    with running(tmp_path) as rig:
        top = Glass(rig, "top", "--every", "0.2")
        try:
            top.until("nothing is deployed")
            rig.kill()
            top.until("cannot reach the agent")
            rig.start()
            top.until("nothing is deployed")
        finally:
            top.close()
        rig.terminate()
        assert rig.ctl("top").code == 5
