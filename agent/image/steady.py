"""Progress at a pace that a person, a terminal and an event stream can take: engines say more than anybody reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.clock import Clock
from agent.image.port import Say


class Steady:
    """Passes on what is new at once, and what goes on within one `stage` at most every `every_s` seconds."""

    def __init__(self, say: Say, clock: Clock, every_s: float) -> None:
        self._say = say
        self._clock = clock
        self._every_s = every_s
        self._stage: str | None = None
        self._at = 0.0
        self._held: Mapping[str, Any] | None = None

    def __call__(self, said: Mapping[str, Any]) -> None:
        stage, now = said.get("stage"), self._clock.now().mono
        if stage is None or stage != self._stage or now - self._at >= self._every_s:
            self._stage, self._at, self._held = stage, now, None
            self._say(said)
        else:
            self._held = said

    def flush(self) -> None:
        """The last word of a stage that is over."""
        if self._held is not None:
            self._say(self._held)
            self._held = None
