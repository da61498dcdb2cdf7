"""One clock for all processes of an engine: seconds of the imitated engine, run faster or slower than real ones."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Clock:
    """`scale` real seconds pass for every second of the engine: 0.01 makes a start of 450 s last 4.5 s.

    CLOCK_MONOTONIC is one for all processes of a host, so a forked engine core reads the same time as its parent.
    """

    scale: float
    origin: float = field(default_factory=time.monotonic)

    def now(self) -> float:
        """Engine seconds since the process began."""
        return (time.monotonic() - self.origin) / self.scale

    def real(self, seconds: float) -> float:
        """How many real seconds `seconds` of the engine last."""
        return max(0.0, seconds * self.scale)

    def sleep(self, seconds: float) -> None:
        """Wait for engine seconds; blocks, so only where the real engine blocks too."""
        time.sleep(self.real(seconds))
