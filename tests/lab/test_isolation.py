"""The lab leaves the host as it was: another Engine's rules, its processes, its files.

The Engine of the run stands for the one that a user has; a second lab is entered from there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab import images, inside, sessions
from tests.lab.children import served
from tests.lab.engine import Engine
from tests.lab.place import OUTER_NETWORK, REPOSITORY, SESSION, Unavailable

PORT = 18081
SECOND_LAB = f"""
import os, sys
from tests.lab import engine, images
with engine.running("second") as second:
    images.busybox(second, "busybox:lab")
    second.docker("run", "-d", "-p", "{PORT}:80", "busybox:lab", "httpd", "-f", "-p", "80", "-h", "/bin")
    print("up", os.environ["{SESSION}"], flush=True)
    sys.stdin.readline()
"""


@contextmanager
def second_lab() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another lab with an Engine that publishes the same port, and its session; a line on its stdin ends it.

    Runs beside this one have labs and sweeps of their own, at any moment.
    """
    environment = {name: value for name, value in os.environ.items() if name not in (SESSION, OUTER_NETWORK)}
    words = [sys.executable, "-m", "tests.lab.inside", "--", sys.executable, "-c", SECOND_LAB]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=REPOSITORY, env=environment, stdin=pipe, stdout=pipe, text=True) as lab:
        try:
            assert lab.stdout is not None
            word, session = lab.stdout.readline().split()
            assert word == "up"
            yield lab, Path(session)
        finally:
            lab.kill()


@pytest.fixture
def users_engine(lab_engine: Engine) -> Iterator[Engine]:
    """An Engine with a published port that somebody relies on."""
    images.busybox(lab_engine, "busybox:lab")
    httpd = ("busybox:lab", "httpd", "-f", "-p", "80", "-h", "/etc")
    lab_engine.docker("run", "-d", "--name", "service", "-p", f"{PORT}:80", *httpd)
    assert served(PORT, "/passwd")[0] == 200
    yield lab_engine
    lab_engine.docker("rm", "--force", "service")


def answers() -> bool:
    """Whether the user's service answers on its published port."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/passwd", timeout=10) as answer:
        return bool(answer.status == 200)


def processes() -> set[int]:
    """Every process that is visible from here, those of a second lab too."""
    return {int(path.name) for path in Path("/proc").glob("[0-9]*")}


def wait_until_gone(before: set[int]) -> set[int]:
    """The processes that are still more than `before`, after the kernel had its time."""
    deadline = time.monotonic() + 10
    while (more := processes() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    return more


@pytest.mark.docker
def test_another_engines_rules_and_service_are_undisturbed(users_engine: Engine) -> None:
    """With a second lab beside it that publishes the same port, and after that lab has ended."""
    rules = users_engine.firewall()
    assert str(PORT) in rules
    with second_lab() as (lab, _):
        assert users_engine.firewall() == rules
        assert answers()
        lab.communicate("\n")
        assert lab.returncode == 0
    assert users_engine.firewall() == rules
    assert answers()


@pytest.mark.docker
def test_a_lab_that_ends_leaves_nothing(users_engine: Engine) -> None:
    """No process, no folder, no control group."""
    before = processes()
    with second_lab() as (lab, session):
        assert session in sessions.folders()
        assert len(processes() - before) > 5
        assert sessions.cgroups(session.name)
        lab.communicate("\n")
    assert wait_until_gone(before) == set()
    assert session not in sessions.folders()
    assert sessions.cgroups(session.name) == []


@pytest.mark.docker
def test_a_lab_that_is_killed_leaves_no_process_and_the_next_one_its_files(users_engine: Engine) -> None:
    """SIGKILL of the outermost process ends dockerd, containerd and the containers; a sweep removes the rest."""
    before = processes()
    with second_lab() as (lab, session):
        lab.kill()
        lab.wait()
        assert wait_until_gone(before) == set()
    sessions.sweep()
    assert session not in sessions.folders()
    assert sessions.cgroups(session.name) == []


@pytest.mark.timeout(20)
def test_a_session_that_somebody_else_has_removed_is_removed(tmp_path: Path) -> None:
    """Two runs may end at one moment."""
    sessions.remove(tmp_path / "gone")


@pytest.mark.docker
def test_a_process_left_behind_is_told(users_engine: Engine) -> None:
    """A command that succeeds and forgets a process does not pass."""
    environment = {name: value for name, value in os.environ.items() if name not in (SESSION, OUTER_NETWORK)}
    words = [sys.executable, "-m", "tests.lab.inside", "--", "sh", "-c", "sleep 987 & exit 0"]
    done = subprocess.run(words, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert "sleep 987" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else for a moment")
def test_without_root_the_reason_is_said() -> None:
    """One sentence that a skip can show."""
    os.seteuid(65534)
    try:
        with pytest.raises(Unavailable, match=r"cannot enter the lab: .* needs root"):
            inside.enter_check()
    finally:
        os.seteuid(0)
