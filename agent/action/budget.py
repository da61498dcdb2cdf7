"""How often a deployment may be restarted, and how long to wait before (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """Restarts since the last proven healthy time, whatever the clock.

    A clock window ("3 in 30 minutes") never trips on an engine that takes 15 minutes a cycle, so the count goes back
    to nothing only after `healthy` seconds of proven readiness.
    """

    spent: int
    allowed: int
    backoff: Sequence[float]
    jitter: float = 0.0
    """0..1, the share of a wait that is added; given by the caller, so that this stays a function."""

    @property
    def left(self) -> int:
        return max(0, self.allowed - self.spent)

    @property
    def wait(self) -> float:
        """Seconds before the next restart: none for the first after a healthy time."""
        if self.spent == 0 or not self.backoff:
            return 0.0
        return self.backoff[min(self.spent - 1, len(self.backoff) - 1)] * (1.0 + self.jitter)


@dataclass(frozen=True, slots=True)
class HostBudget:
    """Restarts for faults over all deployments of a host: a host that fails must not restart everything for ever."""

    restarts: int = 12
    window: float = 3600.0

    def wait(self, restarted: Sequence[float], now: float) -> float:
        """Seconds until one more is allowed. `restarted`: when each was, in seconds of the same clock, oldest first."""
        recent = [at for at in restarted if now - at < self.window]
        if len(recent) < self.restarts:
            return 0.0
        return recent[len(recent) - self.restarts] + self.window - now if self.restarts else self.window
