"""Whoever listens to the fleet: to its events, and to any change of a board."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from agent.action.store import Event

QUEUE = 256


class Audience:
    """Listeners come and go; none of them can hold the fleet up."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[Event]] = set()
        self._changed: set[asyncio.Event] = set()

    def told(self, event: Event) -> None:
        """Pass an event on to whoever listens; a listener that does not keep up loses the oldest."""
        for queue in self._listeners:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(event)

    def _notify(self) -> None:
        for changed in self._changed:
            changed.set()

    @asynccontextmanager
    async def events(self) -> AsyncIterator[asyncio.Queue[Event]]:
        """A queue of what is told from now on."""
        queue: asyncio.Queue[Event] = asyncio.Queue(QUEUE)
        self._listeners.add(queue)
        try:
            yield queue
        finally:
            self._listeners.discard(queue)

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[Callable[[float], Awaitable[bool]]]:
        """Waits until anything was published, or the seconds are over: `changed = await wait(10)`."""
        changed = asyncio.Event()
        self._changed.add(changed)

        async def wait(seconds: float) -> bool:
            try:
                async with asyncio.timeout(seconds):
                    await changed.wait()
            except TimeoutError:
                return False
            changed.clear()
            return True

        try:
            yield wait
        finally:
            self._changed.discard(changed)
