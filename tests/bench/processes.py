"""What processes hold and use, by /proc: memory, processor time, descriptors, threads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
STUB = b"process_stub.py"


def own(pid: int) -> list[int]:
    """The process and its descendants, without the wrappers of engines and what is below them."""
    found, fresh = [], [pid]
    while fresh:
        one = fresh.pop()
        if STUB not in read(one, "cmdline"):
            found.append(one)
            fresh += [int(word) for task in tasks(one) for word in read(one, f"task/{task}/children").split()]
    return found


def wrappers(mark: str) -> list[int]:
    """The wrappers of engines that were started out of a folder."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if STUB in (words := read(pid, "cmdline")) and mark.encode() in words]


def read(pid: int, name: str) -> bytes:
    """A file of /proc/PID; empty where it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


def tasks(pid: int) -> list[str]:
    with suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")
    return []


def pss(pids: Iterable[int]) -> float:
    """Megabytes (10^6) of memory, what is shared counted in shares."""
    lines = [line for pid in pids for line in read(pid, "smaps_rollup").splitlines() if line.startswith(b"Pss:")]
    return sum(int(line.split()[1]) for line in lines) * 1024 / 1e6


def anonymous(pids: Iterable[int]) -> float:
    """Megabytes (10^6) of it that belong to no file: pages of libraries count for more as others that map them end."""
    lines = [line for pid in pids for line in read(pid, "smaps_rollup").splitlines() if line.startswith(b"Pss_Anon:")]
    return sum(int(line.split()[1]) for line in lines) * 1024 / 1e6


def cpu_s(pids: Iterable[int]) -> float:
    """Seconds of processor time, user and system, since their starts."""
    stats = [read(pid, "stat").rpartition(b")")[2].split() for pid in pids]
    return sum(int(fields[11]) + int(fields[12]) for fields in stats if fields) / TICKS


def descriptors(pids: Iterable[int]) -> int:
    found = 0
    for pid in pids:
        with suppress(OSError):
            found += len(os.listdir(f"/proc/{pid}/fd"))
    return found


def threads(pids: Iterable[int]) -> int:
    return sum(len(tasks(pid)) for pid in pids)
