"""Time as an argument: monotonic seconds for windows, wall-clock for people, both from one place."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment on both clocks.

    `mono` is seconds of CLOCK_MONOTONIC: only differences mean anything, and only within one boot. `wall` is seconds
    since the epoch: what is shown and what outlives the agent. A wall-clock jump must fire no timer, so windows use
    `mono`; what has to survive a restart of the agent is stored as `wall` with the boot id beside it.
    """

    mono: float
    wall: float

    def __sub__(self, earlier: Instant) -> float:
        """Seconds from `earlier` to here."""
        return self.mono - earlier.mono


class Clock(Protocol):
    """Where `now` comes from."""

    def now(self) -> Instant: ...


class SystemClock:
    """The host's clocks."""

    def now(self) -> Instant:
        return Instant(mono=time.monotonic(), wall=time.time())


def timestamp(wall: float) -> str:
    """Seconds since the epoch as people and JSON write it: RFC 3339, UTC, milliseconds."""
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
