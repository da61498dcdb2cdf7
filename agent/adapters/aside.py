"""Blocking looks at the kernel, taken aside from the event loop, that may never come back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

from agent.host.reading import Reading, Unknown

T = TypeVar("T")

PLACE_S = 0.002
"""How often a look that waits for a place asks for one; a look takes about a millisecond."""


class Aside:
    """Runs each look in a daemon thread of its own and waits for it no longer than its bound.

    A read of /proc can hang: `cmdline` of a process whose memory map is locked, a file system whose server is gone.
    An executor's threads are joined when the interpreter ends, so one that hangs would keep the agent from leaving;
    daemon threads are not. While `most` looks hang, no further one is started; where they are merely many, as when all
    deployments look at one moment, the next one waits for a place.
    """

    def __init__(self, what: str, seconds: float = 2.0, most: int = 8) -> None:
        self._what = what
        self._seconds = seconds
        self._most = most
        self._threads: dict[Thread, float] = {}
        """Those that have not come back, each with when it was begun."""

    async def look(self, look: Callable[[], Reading[T]]) -> Reading[T]:
        """What `look` returns; Unknown when it takes too long. What it raises is raised here."""
        try:
            return await self.run(look)
        except TimeoutError as error:
            return Unknown(str(error))

    async def run(self, call: Callable[[], T]) -> T:
        """What `call` returns or raises; TimeoutError when it takes too long."""
        while self._full():
            if min(time.monotonic() - begun for begun in self._threads.values()) > self._seconds:
                raise TimeoutError(f"{self._what}: {len(self._threads)} earlier looks have not come back")
            await asyncio.sleep(PLACE_S)
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        thread = Thread(target=_carry_out, args=(call, future), name=f"aside: {self._what}", daemon=True)
        self._threads[thread] = time.monotonic()
        thread.start()
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            raise TimeoutError(f"{self._what}: no answer within {self._seconds:g} s") from error

    def _full(self) -> bool:
        self._threads = {thread: begun for thread, begun in self._threads.items() if thread.is_alive()}
        return len(self._threads) >= self._most


def _carry_out(call: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001  (nothing is swallowed: the awaiter raises it)
        future.set_exception(error)
