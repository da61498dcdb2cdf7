"""Files in the host's /dev/shm: whose they are by who has them mapped, and the removal of those that nobody has."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from agent.adapters.aside import Aside
from agent.adapters.procfs import pids
from agent.clock import Clock
from agent.host.reading import Known, Reading, Unknown

File = tuple[str, int]
"""Name directly below /dev/shm, and inode: a name is used again, an inode with it hardly is."""

LINE = re.compile(r"\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+) +(/.*)")
MOST_FILES = 4096
SHM = Path("/dev/shm")  # noqa: S108


class ShmFiles:
    """A `SharedMemory`. Files are told by device and inode, so that a container's own /dev/shm is never meant."""

    def __init__(self, clock: Clock, proc: Path = Path("/proc"), folder: Path = SHM) -> None:
        self._clock = clock
        self._proc = proc
        self._folder = folder
        self._aside = Aside(str(SHM), seconds=10.0)

    async def files(self) -> Reading[tuple[int, ...]]:
        return await self._aside.look(self._inodes)

    async def mapped(self, processes: Collection[int]) -> Reading[tuple[File, ...]]:
        return await self._aside.look(lambda: self._mapped(processes))

    async def unused(self, files: Collection[File]) -> Reading[tuple[File, ...]]:
        return await self._aside.look(lambda: self._unused(files))

    async def remove(self, files: Collection[File]) -> str:
        try:
            return await self._aside.run(lambda: self._remove(files))
        except TimeoutError as error:
            return str(error)

    def _inodes(self) -> Reading[tuple[int, ...]]:
        try:
            found = tuple(sorted(entry.stat().st_ino for entry in os.scandir(self._folder) if entry.is_file()))
        except OSError as error:
            return Unknown(f"cannot look into {self._folder}: {error.strerror}")
        if len(found) > MOST_FILES:
            return Unknown(f"{self._folder} holds {len(found)} files, more than are remembered")
        return Known(found, self._clock.now())

    def _mapped(self, processes: Collection[int]) -> Reading[tuple[File, ...]]:
        device = self._device()
        found: set[File] = set()
        for pid in processes:
            found.update(self._of(pid, device) or ())
        return Known(tuple(sorted(found)), self._clock.now())

    def _unused(self, files: Collection[File]) -> Reading[tuple[File, ...]]:
        """Those that are there and that no process has mapped. A process that may not be looked into could have any."""
        there = {(name, inode) for name, inode in files if self._is(name, inode)}
        if not there:
            return Known((), self._clock.now())
        device = self._device()
        for pid in pids(self._proc):
            mapped = self._of(pid, device)
            if mapped is None:
                return Unknown(f"no right to see what process {pid} has mapped (CAP_SYS_PTRACE)")
            there -= set(mapped)
        return Known(tuple(sorted(there)), self._clock.now())

    def _remove(self, files: Collection[File]) -> str:
        failed = []
        for name, inode in files:
            try:
                if self._is(name, inode):
                    (self._folder / name).unlink()
            except OSError as error:
                failed.append(f"{name}: {error.strerror}")
        return f"not removed from {self._folder}: {'; '.join(failed)}" if failed else ""

    def _is(self, name: str, inode: int) -> bool:
        try:
            found = (self._folder / name).lstat()
        except OSError:
            return False
        return found.st_ino == inode and "/" not in name

    def _device(self) -> tuple[int, int]:
        device = self._folder.stat().st_dev
        return os.major(device), os.minor(device)

    def _of(self, pid: int, device: tuple[int, int]) -> tuple[File, ...] | None:
        """What that process has mapped of the folder's file system; None where it may not be looked into."""
        try:
            text = (self._proc / str(pid) / "maps").read_text(errors="replace")
        except PermissionError:
            return None
        except OSError:
            return ()  # it has ended
        return tuple(files_in(text, device))


def files_in(maps: str, device: tuple[int, int]) -> Iterator[File]:
    """Files of that device directly below its root that still have a name."""
    for line in maps.splitlines():
        found = LINE.fullmatch(line)
        if found is None or (int(found[1], 16), int(found[2], 16)) != device or found[4].endswith(" (deleted)"):
            continue
        folder, _, name = found[4].rpartition("/")
        if folder == str(SHM):
            yield name, int(found[3])
