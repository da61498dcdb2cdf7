"""`make demo`, run as a person runs it."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab import engine
from tests.lab.demo import runtimes
from tests.lab.demo.screen import Screen
from tests.lab.place import REPOSITORY

DEMO = [sys.executable, "-m", "tests.lab.demo"]
NO_ENGINE = "unix:///nowhere/docker.sock"
STORY = (
    r"\$ +agentctl deploy demo --yes --wait",
    r"preflight +checks the host",
    r"starting +creates generation 1",
    r"ready ",
    r"endpoint +http://127\.0\.0\.1:\d+/v1",
    r"busy ",
    r"GET /health still answers 200",
    r"suspect ",
    r"stalled ",
    r"stopping ",
    r"evidence +kept \d+ files",
    r"starting +creates generation 2",
    r"mended +found [\d.]+ s after the fault",
    r'stalls_total\{kind="busy",recipe="demo"\}  0 → 1',
    r'restarts_total\{reason="busy",recipe="demo"\}  0 → 1',
    r"fault +the agent gets SIGKILL",
    r"adopted +generation 2",
    r"demo was removed",
    r"done +nothing is left running",
)


def environment(marker: Path, docker_host: str) -> dict[str, str]:
    """A PATH that the agent and the engines of the demo inherit, and nobody else has."""
    return {**os.environ, "DOCKER_HOST": docker_host, "PATH": f"{marker}:{os.environ['PATH']}"}


def marked(marker: Path) -> list[str]:
    """The command lines of processes that still have that PATH."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"PATH={marker}".encode() in (folder / "environ").read_bytes() or (
                f":{marker}:".encode() in (folder / "environ").read_bytes()
            ):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def not_told(seen: str) -> str | None:
    """The first step of the story that is not there after those before it."""
    at = 0
    for step in STORY:
        found = re.compile(step).search(seen, at)
        if found is None:
            return step
        at = found.end()
    return None


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_demo_tells_its_story_and_leaves_nothing(tmp_path: Path) -> None:
    """As a plain process: every state in its order, the metrics, an end within two minutes, and nothing left."""
    began = time.monotonic()
    done = subprocess.run(DEMO, cwd=REPOSITORY, env=environment(tmp_path, NO_ENGINE), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - began < 120
    assert done.stdout.startswith("runtime: process: no Docker Engine")
    assert not_told(done.stdout) is None, done.stdout
    assert "\x1b" not in done.stdout, "colour and cursor are for terminals"
    assert left_of(done.stdout, tmp_path) == []


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.timeout(180)
def test_the_demo_uses_an_engine_that_answers(lab_engine: engine.Engine, tmp_path: Path) -> None:
    """In containers of an image of its own, which is gone afterwards as they are."""
    run = environment(tmp_path, lab_engine.docker_host)
    done = subprocess.run(DEMO, cwd=REPOSITORY, env=run, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("runtime: docker: Engine ")
    assert not_told(done.stdout) is None, done.stdout
    assert left_of(done.stdout, tmp_path) == []
    assert lab_engine.docker("ps", "--all", "--quiet", "--filter", "name=recipe-agent-demo") == ""
    assert lab_engine.docker("image", "ls", "--quiet", runtimes.IMAGE) == ""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["runs, with a site", "starting", "fault", "SIGKILL"])
def test_ctrl_c_leaves_nothing(tmp_path: Path, moment: str) -> None:
    """At any moment: while the agent starts, the engine starts, it hangs, and while there is no agent."""
    run = environment(tmp_path, NO_ENGINE)
    with subprocess.Popen(DEMO, cwd=REPOSITORY, env=run, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        seen = ""
        while moment not in seen:
            line = demo.stdout.readline()
            assert line, seen
            seen += line
        demo.send_signal(signal.SIGINT)
        seen += demo.stdout.read()
    assert demo.returncode == 130, seen
    assert "nothing is left running" in seen
    assert left_of(seen, tmp_path) == []


def left_of(seen: str, marker: Path) -> list[str]:
    """Processes that outlived the demo, and its folder."""
    (folder,) = set(re.findall(r"\S+/recipe-agent-demo-\w+", seen))
    return marked(marker) + ([folder] if Path(folder).exists() else [])


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("tcp://10.0.0.1:2375", "DOCKER_HOST is tcp://10.0.0.1:2375"),
        (NO_ENGINE, "no Docker Engine on this machine"),
    ],
)
def test_without_an_engine_of_this_host_it_is_a_process_and_says_why(host: str, why: str) -> None:
    """The first line of the demo."""
    runtime = runtimes.choose({"DOCKER_HOST": host})
    assert runtime.kind == "process"
    assert why in runtime.title


def test_colour_and_passing_lines_are_for_a_terminal() -> None:
    """A pseudo terminal gets them, unless it asks for no colour."""
    assert "\x1b[31m" in drawn({"TERM": "xterm"})
    assert "\x1b[31m" not in drawn({"TERM": "xterm", "NO_COLOR": "1"})
    assert "\x1b" not in drawn({"TERM": "dumb"})


def drawn(environment: dict[str, str]) -> str:
    """What a terminal receives of a passing line and an event."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream, os.fdopen(ours, "rb", buffering=0) as terminal:
        screen = Screen(stream, environment)
        screen.passing("starting", "loads")
        screen.event("stalled", "nothing moves")
        seen = b""
        while not seen.endswith(b"\n"):
            seen += terminal.read(4096)
        return seen.decode()
