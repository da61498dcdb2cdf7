"""How much an engine's busiest process computes: two looks at all of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from agent.host.process import Process

APART_S = 120.0
"""Looks further apart say nothing about now."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of processor time by (pid, start), at one moment of a monotonic clock."""

    at: float
    seconds: dict[tuple[int, int], float]


class Efforts:
    """Of each run of an engine, the last look at its processes."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], Spent] = {}

    def keep(self, slugs: Collection[str]) -> None:
        """Forget all other deployments."""
        self._last = {key: spent for key, spent in self._last.items() if key[0] in slugs}

    def busiest(self, run: tuple[str, int], processes: tuple[Process, ...] | None, at: float) -> float | None:
        """Cores that the busiest one used since the last look; None at the first, and where one may be missing."""
        before = self._last.pop(run, None)
        if not processes:
            return None
        now = Spent(at, {(one.pid, one.start_ticks): one.cpu_seconds for one in processes})
        self._last[run] = now
        if before is None or not 0 < at - before.at <= APART_S:
            return None
        spent = [seconds - before.seconds.get(key, 0.0) for key, seconds in now.seconds.items()]
        return max(0.0, *spent) / (at - before.at)
