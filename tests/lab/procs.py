"""What /proc says of processes that may end at any moment: a process that is gone is an answer, never an error.

A file of one that ends between its opening and its reading fails with ESRCH, not with ENOENT.
"""

from __future__ import annotations

from pathlib import Path


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
    letters = {_letter(content(pid, f"task/{thread.name}/stat")) for thread in Path(f"/proc/{pid}/task").glob("*")}
    return letters - {"X"}


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
