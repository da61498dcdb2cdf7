"""The best that the cards' links have been seen to do, kept in the state folder over restarts of the agent."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from agent.adapters.preflight_facts_links import LinkFile
from agent.clock import Clock
from agent.host.gpu import Gpu
from agent.host.links import Links, same_links, seen
from agent.host.reading import value_of

log = structlog.get_logger()
REFRESH_S = 600.0
"""How old the time of the last work in the file may get; news of a link are written at once."""


class LinkWatch:
    """One look at the cards after another. A file that cannot be written costs the memory of it, and says so once."""

    def __init__(self, file: LinkFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._kept: Links | None = None
        self._links: Links = {}
        self._written = 0.0
        self._failed = False

    async def see(self, cards: Iterable[Gpu]) -> None:
        now = self._clock.now()
        if self._kept is None:
            self._kept = self._links = value_of(await self._file.read()) or {}
        self._links = seen(self._links, cards, now.wall)
        stale = self._links != self._kept and now.mono - self._written > REFRESH_S
        if stale or not same_links(self._links, self._kept):
            await self._write(now.mono)

    async def _write(self, now: float) -> None:
        try:
            await self._file.write(self._links)
        except OSError as error:
            if not self._failed:
                log.warning("links_not_kept", reason=str(error))
            self._failed = True
            return
        self._kept, self._written, self._failed = self._links, now, False
