"""Follow the log of the container that runs, across broken streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from agent.container.port import Runtime
from agent.daemon.guard import cancelled
from agent.engines.model import LogEvent, Phase
from agent.errors import AgentError
from agent.samples.logs import LogTail

log = structlog.get_logger()
RECONNECT_S = 1.0
LONGEST_WAIT_S = 30.0


class Follower:
    """One task that reads one container's log into a bounded tail; `wake` is called when a line changes the picture."""

    def __init__(self, runtime: Runtime, read: Callable[[str], LogEvent | None], wake: Callable[[], None]) -> None:
        self._runtime = runtime
        self._read = read
        self._wake = wake
        self._task: asyncio.Task[None] | None = None
        self._container: str | None = None
        self._read_out = asyncio.Event()
        self.wanted: tuple[str, ...] = ()
        self.tail = LogTail(self._noticed)

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
        self.tail = LogTail(self._noticed, wanted=self.wanted, ready_at=ready_at)
        self._task = asyncio.create_task(self._run(container), name=f"log {container[:12]}")

    async def _run(self, container: str) -> None:
        wait = RECONNECT_S
        while True:
            try:
                async for line in self._runtime.follow(container, self.tail.last_at):
                    self.tail.add(line)
                    wait = RECONNECT_S
            except AgentError as error:
                log.debug("log_stream_broke", container=container[:12], reason=error.text)
            else:
                self._read_out.set()
            # the stream ends when the container does, and when it merely breaks: the loop's own poll knows which
            self._wake()
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT_S)

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
