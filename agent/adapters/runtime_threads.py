"""Calls that block, kept off the loop: each in a daemon thread of its own, few at once, each with a deadline."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

Result = TypeVar("Result")


class Threads:
    """At most `limit` blocking calls at once.

    A call that hangs costs its caller the deadline and never the loop. Its thread keeps its place among the `limit`
    until it really ends, so hung calls cannot pile up; later ones then wait for a place within their own deadline.
    Daemon threads, since a pool's threads are joined when the interpreter ends and one that is stuck would hold it.
    """

    def __init__(self, name: str, limit: int = 8) -> None:
        self._name = name
        self._places = asyncio.Semaphore(limit)

    async def run(self, call: Callable[[], Result], deadline: float) -> Result:
        """What `call` returns or raises; TimeoutError after `deadline` seconds, with the call left to itself."""
        async with asyncio.timeout(deadline):
            await self._places.acquire()
            return await self._start(call)

    def _start(self, call: Callable[[], Result]) -> asyncio.Future[Result]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        # A thread starts with an empty context: the log's bound fields have to be carried over.
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(self._work, loop, future, call), name=self._name, daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            self._places.release()
            raise
        return future

    def _work(
        self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Result], call: Callable[[], Result]
    ) -> None:
        settle: Callable[[], None]
        try:
            settle = partial(future.set_result, call())
        except BaseException as error:  # noqa: BLE001 - carried over to the caller, who meets it as it is
            settle = partial(future.set_exception, error)
        self._hand_over(loop, future, settle)

    def _hand_over(
        self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Result], settle: Callable[[], None]
    ) -> None:
        def on_loop() -> None:
            self._places.release()
            if not future.done():
                settle()

        try:
            loop.call_soon_threadsafe(on_loop)
        except RuntimeError:
            # The loop was closed while this call hung: nobody waits any more.
            return
