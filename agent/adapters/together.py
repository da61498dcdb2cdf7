"""One reading for all who ask at the same moment.

Sixteen deployments look at the same second, and most of what they read is the host's: its process table, its tables of
sockets, its list of containers. A reading begins after each of its askers has asked, so nobody is given one that is
older than the question: only the work is shared, no freshness is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

GATHER_S = 0.003
"""How long a first asker waits for others: loops that are due at one moment ask within one turn of the event loop."""


class Together(Generic[K, T]):
    """`read` is called with everything that is asked at one moment, and answers each key; what it raises is raised by
    every asker. An asker that leaves takes nothing from the others; when the last one leaves, the reading ends too."""

    def __init__(self, read: Callable[[tuple[K, ...]], Awaitable[Mapping[K, T]]], gather_s: float = GATHER_S) -> None:
        self._read = read
        self._gather_s = gather_s
        self._gathering: _Round[K, T] | None = None

    async def ask(self, key: K) -> T:
        """The answer for `key`, from a reading that begins after this call."""
        gathering = self._gathering
        if gathering is None:
            gathering = self._gathering = _Round()
            gathering.task = asyncio.create_task(self._answer(gathering), name="a shared reading")
        gathering.keys[key] = None
        gathering.askers += 1
        try:
            return (await asyncio.shield(gathering.task))[key]
        finally:
            gathering.askers -= 1
            if not gathering.askers and not gathering.task.done():
                gathering.task.cancel()
                if self._gathering is gathering:
                    self._gathering = None

    async def _answer(self, gathering: _Round[K, T]) -> Mapping[K, T]:
        await asyncio.sleep(self._gather_s)
        self._gathering = None
        return await self._read(tuple(gathering.keys))


class _Round(Generic[K, T]):
    """What is asked together, by how many."""

    def __init__(self) -> None:
        self.keys: dict[K, None] = {}
        self.askers = 0
        self.task: asyncio.Task[Mapping[K, T]]
