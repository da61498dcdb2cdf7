"""Progress at a pace that a person, a terminal and an event stream can take: engines say more than anybody reads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agent.clock import Clock
from agent.image.port import Say


class Steady:
    """Passes on what is new at once, and what goes on within one `stage` at most every `every_s` seconds.

    What is held back is passed on once its time has come, whether or not more follows: a step may be silent for hours
    after its last line.
    """

    def __init__(self, say: Say, clock: Clock, every_s: float) -> None:
        self._say = say
        self._clock = clock
        self._every_s = every_s
        self._stage: str | None = None
        self._at = 0.0
        self._held: Mapping[str, Any] | None = None
        self._due: asyncio.TimerHandle | None = None

    def __call__(self, said: Mapping[str, Any]) -> None:
        stage, now = said.get("stage"), self._clock.now().mono
        if stage is None or stage != self._stage or now - self._at >= self._every_s:
            self._pass(said, stage, now)
        else:
            self._held = said
            if self._due is None:
                self._due = asyncio.get_running_loop().call_later(self._at + self._every_s - now, self.flush)

    def flush(self) -> None:
        """Pass on what is held: its time has come, or its stage is over."""
        if self._held is not None:
            self._pass(self._held, self._stage, self._clock.now().mono)

    def _pass(self, said: Mapping[str, Any], stage: str | None, now: float) -> None:
        self._stage, self._at, self._held = stage, now, None
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self._say(said)
