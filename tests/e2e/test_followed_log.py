"""`agentctl logs -f` over the life of an agent and of an engine: every line once."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e import traffic
from tests.e2e.rig import PROGRAMS, Rig, deployed, wait_for
from tests.lab.children import end

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
NUMBER = re.compile(r"GET /health\?n=(\d+) ")


class Asker:
    """Asks an engine numbered questions, each of which it writes into its log."""

    def __init__(self, port: int) -> None:
        self.port, self.count = port, 0

    def ask(self) -> None:
        if traffic.get(self.port, f"/health?n={self.count}")[0] == 200:
            self.count += 1

    @contextmanager
    def asking(self) -> Iterator[None]:
        """All the time, about fifty a second."""
        over = threading.Event()

        def work() -> None:
            while not over.wait(0.02):
                self.ask()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@contextmanager
def followed(rig: Rig, slug: str, *words: str) -> Iterator[Callable[[], list[int]]]:
    """`agentctl logs -f` beside the block; the numbers that it has shown so far."""
    path = rig.folder / "followed.txt"
    with path.open("wb") as target:
        command = [str(PROGRAMS / "agentctl"), "logs", slug, "-f", *words]
        follower = subprocess.Popen(command, env=rig.environment, stdout=target, stderr=target)
    try:
        yield lambda: [int(one) for one in NUMBER.findall(path.read_text())]
        assert follower.poll() is None, path.read_text()[-2000:]
    finally:
        end(follower)


def over_restarts(rig: Rig, slug: str) -> None:
    """The agent is killed, and leaves as it is asked to, while lines are written all the time."""
    asker = Asker(deployed(rig, slug))
    with followed(rig, slug) as numbers:
        with asker.asking():
            for leave, least in ((rig.kill, 20), (rig.terminate, 60)):
                wait_for(lambda: len(numbers()) > least, "lines to be shown")  # noqa: B023 - called at once
                leave()
                time.sleep(1.0)
                rig.start()
        wait_for(lambda: asker.count - 1 in numbers(), "the last line to be shown")
        shown = numbers()
    assert shown == list(range(asker.count))


@pytest.mark.docker
@pytest.mark.long
def test_it_goes_on_over_restarts_of_the_agent(rig: Rig) -> None:
    """Nothing is shown twice, and what an engine wrote while nobody looked is not left out."""
    over_restarts(rig, "spoken")


def test_it_goes_on_with_plain_processes_too(process_rig: Rig) -> None:
    """Whose lines share their moments by the dozen."""
    over_restarts(process_rig, "spoken-plain")


def test_an_engine_that_says_nothing_is_waited_for(process_rig: Rig) -> None:
    """A follower that has shown no line yet lives through a restart of the agent as well."""
    asker = Asker(deployed(process_rig, "silent"))
    wait_for(lambda: timed(process_rig), "the log's lines to have their times")
    with followed(process_rig, "silent", "--tail", "0") as numbers:
        wait_for(lambda: connected(process_rig), "the follower to ask")
        time.sleep(1.0)
        process_rig.terminate()
        process_rig.start()
        wait_for(lambda: asker.ask() or numbers(), "a line to be shown")
        assert Path(process_rig.folder / "followed.txt").read_text().count("startup complete") == 0


def timed(rig: Rig) -> bool:
    """Whether all of the log counts as written: its wrapper notes its length with the time, twice a second."""
    (folder,) = (rig.folder / "state" / "processes").iterdir()
    rows = (
        (folder / "log.times").read_text().rpartition("\n")[0].splitlines() if (folder / "log.times").exists() else []
    )
    return bool(rows) and int(rows[-1].split()[1]) == (folder / "log").stat().st_size


def connected(rig: Rig) -> bool:
    """Whether somebody is connected to the daemon's socket (unix(7): state 03 of one that has its path)."""
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return any(row[5] == "03" and row[-1] == str(rig.folder / "agent.sock") for row in rows)


@pytest.mark.long
def test_a_saved_log_is_not_shown_again_and_again(process_rig: Rig) -> None:
    """While an engine is stopped its last log is there to read; who followed it has read it."""
    slug = "stopped"
    deployed(process_rig, slug)
    path = process_rig.folder / "followed.txt"
    with followed(process_rig, slug):
        wait_for(lambda: "startup complete" in path.read_text(), "the log to be shown")
        process_rig.ok("stop", slug)
        time.sleep(3.0)
        process_rig.ok("start", slug)
        process_rig.until(slug, "ready", generation=2)
        wait_for(lambda: path.read_text().count("startup complete") >= 2, "the next engine's log")
    assert path.read_text().count("startup complete") == 2
