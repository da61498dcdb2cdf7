"""Waiting for more of a log that a file is, without a stream to read from."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from agent.adapters import process_log as engine_log
from agent.adapters import process_records as records
from agent.adapters import process_table as processes
from agent.adapters.process_log import Batch
from agent.adapters.process_records import Record
from agent.adapters.process_table import Mark
from agent.adapters.process_view import view_of
from agent.container.port import RunState

LIVELY_S = 0.25
"""How often a log is asked for a sign of change while it grows now and then."""
CALM_S = 1.0
"""The same once it has been silent for `SILENT_S`: each look costs a turn of the event loop, for every engine."""
SILENT_S = 5.0
ANYWAY_S = 2.0
"""After so long it is read without a sign: a wrapper that died leaves none."""
ANYWAY_HEARD_S = 30.0
"""The same where the kernel tells of the engine's end."""

Sign = tuple[tuple[int, int] | None, ...]


def sign_of(folder: Path) -> Sign:
    """What changes whenever there may be more to read: size and time of three files, a few microseconds to ask for.

    A look itself is a thread and a dozen files, for each engine; most find nothing.
    """
    return tuple(_sign(f"{folder}/{name}") for name in ("log", "log.times", "exited"))


def _sign(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a tenth of what a Path costs, often
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


class Change:
    """Until there may be more to read of one record's log. The engine's end is heard at once, by its pidfd."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sign: Sign = ()
        self._grew = time.monotonic()
        self._of: Mark | None = None
        self._handle: int | None = None
        self._ended = asyncio.Event()

    def note(self) -> None:
        """Before a look: what it is later compared with."""
        sign = sign_of(self._folder)
        if sign != self._sign:
            self._sign, self._grew = sign, time.monotonic()

    def listen(self, engine: Mark | None) -> None:
        """For the end of this process; without pidfds (before Linux 5.3, in sandboxes) the sign alone tells of it."""
        if engine is None or engine == self._of:
            return
        self._of = engine
        try:
            handle = os.pidfd_open(engine.pid)
        except OSError:
            return
        if processes.find(engine) is None:  # after the handle is taken: the pid may have been used again before
            os.close(handle)
            return
        self._handle = handle
        asyncio.get_running_loop().add_reader(handle, self._end)

    async def wait(self) -> None:
        until = time.monotonic() + (ANYWAY_S if self._handle is None else ANYWAY_HEARD_S)
        while time.monotonic() < until and sign_of(self._folder) == self._sign:
            silent = time.monotonic() - self._grew > SILENT_S
            heard = self._handle is not None
            try:
                async with asyncio.timeout(CALM_S if silent and heard else LIVELY_S):
                    await self._ended.wait()
            except TimeoutError:
                continue
            self._ended.clear()
            return

    def _end(self) -> None:
        self._ended.set()
        self.close()

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            asyncio.get_running_loop().remove_reader(handle)
            os.close(handle)


def read(record: Record, offset: int) -> tuple[Batch, Mark | None]:
    """Lines at `offset`, everything where nobody notes times any more; and the engine, where it was started."""
    started = records.started(record)
    kept = started is not None and processes.alive(started.wrapper)
    ended = view_of(record).state is RunState.EXITED
    created = started is None
    batch = engine_log.read_from(record.folder, offset, complete=ended or not (kept or created), ended=ended)
    return batch, started.main if started is not None and not ended else None
