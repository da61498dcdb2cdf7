"""Paths, folders and the first bytes of files, for the checks of a host."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from agent.adapters.runtime_threads import Threads
from agent.clock import Clock
from agent.host.reading import Known, Reading, Unknown
from agent.preflight.facts import PathFact, PathKind
from agent.quantity import Bytes

T = TypeVar("T")

_KINDS = (
    (stat.S_ISREG, PathKind.FILE),
    (stat.S_ISDIR, PathKind.FOLDER),
    (stat.S_ISSOCK, PathKind.SOCKET),
    (stat.S_ISCHR, PathKind.DEVICE),
    (stat.S_ISBLK, PathKind.DEVICE),
)
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR)


WHOLE_S = 6 * 3600.0


class DiskFiles:
    """Looks at files in threads: a path on a network file system whose server is gone hangs for ever."""

    def __init__(self, clock: Clock, deadline_s: float = 8.0) -> None:
        self._clock = clock
        self._deadline = deadline_s
        self._threads = Threads("preflight-files")

    async def path(self, path: str) -> Reading[PathFact]:
        return await self._look(path, lambda: fact_of(path))

    async def folder(self, path: str) -> Reading[tuple[PathFact, ...]]:
        return await self._look(path, lambda: entries_of(path))

    async def start_of(self, path: str, length: int, offset: int = 0) -> Reading[bytes]:
        return await self._look(path, lambda: read_part(path, length, offset))

    async def sha256(self, path: str) -> Reading[str]:
        """Bounded by nothing but its caller: a file of a terabyte takes an hour."""
        return await self._look(path, lambda: sha256_of(path), WHOLE_S)

    async def _look(self, path: str, look: Callable[[], T], seconds: float | None = None) -> Reading[T]:
        deadline = seconds or self._deadline
        try:
            return Known(await self._threads.run(look, deadline), self._clock.now())
        except TimeoutError:
            return Unknown(f"{path}: no answer within {deadline:g} s (a network file system that hangs?)")
        except OSError as error:
            return Unknown(f"cannot look at {path}: {error.strerror or error}")


def fact_of(path: str) -> PathFact:
    """What stands there; raises OSError where the way to it may not be looked at."""
    real = os.path.realpath(path)
    link = str(Path(path).readlink()) if Path(path).is_symlink() else None
    try:
        found = Path(path).stat()
    except OSError as error:
        if error.errno in _NOTHING_THERE:
            return PathFact(path, real, PathKind.NOTHING, link=link)
        raise
    kind = next((kind for test, kind in _KINDS if test(found.st_mode)), PathKind.OTHER)
    return PathFact(
        path=path,
        real=real,
        kind=kind,
        size=Bytes(found.st_size if kind is PathKind.FILE else 0),
        mode=stat.S_IMODE(found.st_mode),
        uid=found.st_uid,
        gid=found.st_gid,
        link=link,
        entries=count(path) if kind is PathKind.FOLDER else None,
    )


def entries_of(path: str) -> tuple[PathFact, ...]:
    return tuple(fact_of(str(entry)) for entry in sorted(Path(path).iterdir()))


def count(path: str) -> int | None:
    try:
        return sum(1 for _ in Path(path).iterdir())
    except PermissionError:
        return None


def read_part(path: str, length: int, offset: int) -> bytes:
    with Path(path).open("rb") as file:
        file.seek(offset)
        return file.read(length)


def sha256_of(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
