"""What /proc says of processes that may end at any moment: a process that is gone is an answer, never an error.

A file of one that ends between its opening and its reading fails with ESRCH, not with ENOENT.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

STOPS_S = 30.0


def content(pid: int, name: str) -> str:
    """A file of /proc/PID; empty where the process is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def state(pid: int) -> str:
    """The letter of its state (R, S, D, T, Z …); X where it is gone."""
    return _letter(content(pid, "stat"))


def states(pid: int) -> set[str]:
    """The states of its threads that have not ended."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return {_letter(content(pid, f"task/{thread}/stat")) for thread in threads} - {"X"}


def stop(pid: int) -> None:
    """SIGSTOP, once it has taken effect: each of its threads stops when it next runs, and answers until then."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + STOPS_S
    while not states(pid) <= set("TZ"):
        assert time.monotonic() < end, f"process {pid} has not stopped: {states(pid)}"
        time.sleep(0.005)


def ended(pid: int) -> bool:
    """Whether it has ended (a child of a dead parent may wait for init to take it away)."""
    return state(pid) in "ZX"


def name(pid: int) -> str:
    """Its command name, at most 15 letters; empty where it is gone."""
    return content(pid, "comm").strip()


def children(pid: int) -> list[int]:
    """Its children; none where it is gone."""
    return [int(word) for word in content(pid, f"task/{pid}/children").split()]


def descendants(pid: int) -> list[int]:
    """Its children, their children, and so on; none where it is gone."""
    found = children(pid)
    return [*found, *(one for child in found for one in descendants(child))]


def _letter(stat: str) -> str:
    return stat.rpartition(") ")[2][:1] or "X"
