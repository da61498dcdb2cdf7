"""Processes of this host by pid *and* start time, so that a pid that was used again fools nobody."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from errno import ENODEV
from functools import cache
from pathlib import Path

from agent.adapters.procfs import contents, pids

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Mark:
    """One process for all time of one boot: pid and start time in clock ticks since the boot."""

    pid: int
    start: int


@dataclass(frozen=True, slots=True)
class Group:
    """A control group for all time of one boot: a name comes again with a unit of that name, an inode does not."""

    folder: Path
    inode: int

    @property
    def unit(self) -> str:
        """The systemd unit that it is the group of."""
        return self.folder.name


@dataclass(frozen=True, slots=True)
class Process:
    """One line of the process table. `state` is the kernel's letter: Z has ended, D cannot be ended."""

    mark: Mark
    name: str
    state: str
    parent: int
    session: int

    @property
    def ended(self) -> bool:
        return self.state in ("Z", "X")


@cache
def boot_id() -> str:
    """Changes with every boot; start times and pids of another boot mean nothing."""
    return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def process(pid: int) -> Process | None:
    """Who has this pid now."""
    try:
        text = contents(f"{PROC}/{pid}/stat").decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    name, _, rest = text.rpartition(")")
    fields = rest.split()
    return Process(
        mark=Mark(pid, int(fields[19])),
        name=name.partition("(")[2],
        state=fields[0],
        parent=int(fields[1]),
        session=int(fields[3]),
    )


def find(mark: Mark) -> Process | None:
    """The process itself, running or zombie; None once it is gone, whoever has its pid now."""
    found = process(mark.pid)
    return found if found is not None and found.mark == mark else None


def alive(mark: Mark) -> bool:
    """Whether it still runs: a zombie does not."""
    found = find(mark)
    return found is not None and not found.ended


def table() -> dict[int, Process]:
    """All processes that this process can see, by pid."""
    return {pid: found for pid in pids(PROC) if (found := process(pid)) is not None}


def members(group: Group) -> tuple[int, ...]:
    """Pids in a control group; none once it is gone. Raises OSError where it may not be read."""
    try:
        if group.folder.stat().st_ino != group.inode:
            return ()
        words = (group.folder / "cgroup.procs").read_text(encoding="ascii").split()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        if error.errno == ENODEV:  # removed between opening and reading
            return ()
        raise
    return tuple(int(word) for word in words if word != "0")  # 0: of a namespace that we do not see


def family(roots: Iterable[Mark], sessions: Iterable[int], everyone: Mapping[int, Process]) -> tuple[Process, ...]:
    """The living among `roots`, the members of `sessions` and whatever descends from either, by pid."""
    sessions = frozenset(sessions)
    members = {mark.pid for mark in roots} | {pid for pid, found in everyone.items() if found.session in sessions}
    children: dict[int, list[int]] = {}
    for pid, found in everyone.items():
        children.setdefault(found.parent, []).append(pid)
    waiting = list(members)
    while waiting:
        fresh = [pid for pid in children.get(waiting.pop(), ()) if pid not in members]
        members.update(fresh)
        waiting += fresh
    return tuple(everyone[pid] for pid in sorted(members) if not everyone[pid].ended)


def belongs(pid: int, entry: bytes, output: str) -> bool:
    """Whether `entry` (NAME=value) is in its environment or its output goes to the file `output`.

    Either may be gone: a process may overwrite its environment (setproctitle does) or redirect itself. False where
    neither may be read.
    """
    folder = PROC / str(pid)
    try:
        if entry in (folder / "environ").read_bytes().split(b"\0"):
            return True
        return any(str((folder / "fd" / number).readlink()) == output for number in ("1", "2"))
    except OSError:
        return False


def send(mark: Mark, number: signal.Signals) -> bool:
    """Signal exactly this process; False where it is gone. PermissionError where it is not ours to signal.

    The descriptor is taken before the start time is compared, so a pid that is reused in between cannot be hit.
    """
    try:
        handle = os.pidfd_open(mark.pid)
    except ProcessLookupError:
        return False
    except OSError:
        return _send_plainly(mark, number)  # a kernel or sandbox without pidfd_open (before Linux 5.3)
    try:
        if find(mark) is None:
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _send_plainly(mark: Mark, number: signal.Signals) -> bool:
    if find(mark) is None:
        return False
    try:
        os.kill(mark.pid, number)
    except ProcessLookupError:
        return False
    return True
