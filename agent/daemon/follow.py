"""Follow the log of the container that runs, across broken streams, and streams that fell behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import cast

import structlog

from agent.container.port import LogLine, RunState, Runtime
from agent.daemon.guard import cancelled
from agent.engines.model import LogEvent, Phase
from agent.errors import AgentError
from agent.samples.logs import LogTail

log = structlog.get_logger()
RECONNECT_S = 1.0
LONGEST_WAIT_S = 30.0
BEHIND_S = 10.0
"""Silence after which the end of the log itself is looked at: an Engine that rotates a log under a reader may leave the
reader with a file that nobody writes to any more, and its stream is silent from then on (seen on Docker 20.10)."""
ENDED = frozenset({RunState.EXITED, RunState.DEAD, RunState.REMOVING})
SET_BACK_S = 1.0
IN_FLIGHT_S = 1.0
"""How long a line may be in the log and not have come."""


class Follower:
    """One task that reads one container's log into a bounded tail; `wake` is called when a line changes the picture."""

    def __init__(
        self,
        runtime: Runtime,
        read: Callable[[str], LogEvent | None],
        wake: Callable[[], None],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._runtime = runtime
        self._wall = wall
        self._read = read
        self._wake = wake
        self._task: asyncio.Task[None] | None = None
        self._container: str | None = None
        self._read_out = asyncio.Event()
        self.wanted: tuple[str, ...] = ()
        self.tail = LogTail(self._noticed)
        self.unread = ""
        """Why the log cannot be read now; empty while it can, as far as is known."""

    def _noticed(self, line: str) -> LogEvent | None:
        event = self._read(line)
        if event is not None and (event.failure is not None or event.phase is Phase.READY):
            self._wake()
        return event

    async def attend(self, container: str, ready_at: float | None = None) -> None:
        """Follow `container` from its beginning; nothing happens when it is followed already.

        `ready_at`: when an engine that is adopted was ready, seconds of the epoch.
        """
        if container == self._container:
            return
        await cancelled(self._task)
        self._container = container
        self._read_out.clear()
        self.unread = ""
        self.tail = LogTail(self._noticed, wanted=self.wanted, ready_at=ready_at)
        self._task = asyncio.create_task(self._run(container), name=f"log {container[:12]}")

    async def _run(self, container: str) -> None:
        wait = RECONNECT_S
        while True:
            before = self.tail.last_at
            try:
                await self._until_behind(container)
                behind = self._runtime.lags and await self._behind(container)
            except AgentError as error:
                self._cannot(container, error)
            else:
                if behind and self.tail.last_at != before:  # there is more, and streams do bring something
                    continue
                self._read_out.set()
            # the stream ends when the container does, and when it merely breaks: the loop's own poll knows which
            self._wake()
            wait = RECONNECT_S if self.tail.last_at != before else min(wait * 2, LONGEST_WAIT_S)
            await asyncio.sleep(wait)

    async def _until_behind(self, container: str) -> None:
        """One stream, to its end or until it is found to have fallen behind."""
        reading = asyncio.create_task(self._stream(container), name=f"stream {container[:12]}")
        try:
            seen = self.tail.total
            while not reading.done():
                await asyncio.wait({reading}, timeout=BEHIND_S)
                quiet, seen = seen == self.tail.total, self.tail.total
                if reading.done():
                    break
                if not self._runtime.lags:
                    self.unread = ""  # a stream that lives is one that could be opened
                elif quiet and await self._stuck(container):
                    log.info("log_stream_behind", container=container[:12])
                    return
            await reading
        finally:
            await cancelled(reading)

    async def _stream(self, container: str) -> None:
        found = self._runtime.follow(container, going_on_at(self.tail.last_at, self._wall()))
        async with aclosing(cast("AsyncGenerator[LogLine, None]", found)) as lines:
            async for line in lines:
                self.unread = ""
                self.tail.add(line)

    async def _stuck(self, container: str) -> bool:
        """Whether the log has lines that do not come."""
        try:
            if not await self._behind(container):
                return False
            seen = self.tail.total
            await asyncio.sleep(IN_FLIGHT_S)
            return seen == self.tail.total and await self._behind(container)
        except AgentError as error:
            self._cannot(container, error)
            return False

    async def _behind(self, container: str) -> bool:
        """Whether the log's last line is newer than the last one that came."""
        last = await self._runtime.tail(container, 1)
        self.unread = ""
        newest = last[-1].at if last else None
        return newest is not None and (self.tail.last_at is None or newest > self.tail.last_at)

    def _cannot(self, container: str, error: AgentError) -> None:
        if not self.unread:
            log.warning("log_not_readable", container=container[:12], reason=error.text)
            self._wake()
        self.unread = error.text

    async def caught_up(self, within_s: float) -> None:
        """Until the log of an exited container is read to its end, or the time is over."""
        if self._task is None:
            return
        try:
            async with asyncio.timeout(within_s):
                await self._read_out.wait()
        except TimeoutError:
            log.debug("log_not_read_out", container=(self._container or "")[:12])

    async def close(self) -> None:
        await cancelled(self._task)
        self._task, self._container = None, None


def going_on_at(last_at: float | None, now: float) -> float | None:
    """After which moment a log is taken up again; seconds of the epoch.

    A clock that was set back stamps what comes with times before the last line's: nothing would be new until it had
    caught up.
    """
    return now if last_at is not None and last_at > now + SET_BACK_S else last_at


async def on_and_on(runtime: Runtime, container: str, since: float | None) -> AsyncIterator[LogLine]:
    """Its output after `since` until it ends: a stream that breaks, or is quiet for long, is taken up again."""
    while True:
        async for line in runtime.follow(container, going_on_at(since, time.time())):
            since = line.at if line.at is not None else since
            yield line
        view = await runtime.view(container)
        if view is None or view.state in ENDED:
            return
        await asyncio.sleep(RECONNECT_S)
