"""Does an engine's own memory grow without end? (pure)

What an engine takes for itself (anonymous memory of its processes) rises while it warms up, while caches fill and with
the load of a day, and then stays or falls; a leak rises day after day. So the least of each stretch (a day) is held
against that of the stretch before, three times over, and what the host still has against the slowest of these paces.
Leaks of serving engines are slow and steady, and end in the kernel's killer: resident memory that grows with the
requests served (vllm-project/vllm#44490), up to a container's limit of 64 GiB (vllm-project/vllm#50150).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise

from agent.quantity import Bytes, say_duration

HORIZON_S = 14 * 86_400.0
"""The host's memory lasts for longer than two weekly windows: it can be looked at again then."""


STRETCHES = 3


@dataclass(frozen=True, slots=True)
class Growth:
    """Of one run of an engine. `ready`: when it was first seen ready; times in seconds of a monotonic clock.

    `base`: the most that it held in the warm-up, the `warm` seconds after `ready`. `low`: the least of the running
    stretch of `stretch` seconds, which began at `begun`; `lows`: of the last whole ones, oldest first.
    """

    ready: float
    warm: float
    stretch: float
    base: int
    at: float
    begun: float
    low: int
    lows: tuple[int, ...] = ()

    @property
    def grown(self) -> int:
        """Bytes above the warm-up that it has not given back for a stretch."""
        return min(self.lows[-1], self.low) - self.base if self.lows else 0

    @property
    def pace(self) -> float:
        """Bytes a second: the slowest of the last stretches; 0 where one of them brought none, or they are too few."""
        if len(self.lows) < STRETCHES:
            return 0.0
        steps = [later - earlier for earlier, later in pairwise(self.lows)]
        given_back = min(0, self.low - self.lows[-1])
        return max(0.0, (min(steps) + given_back) / self.stretch)


def grow(before: Growth | None, held: int | None, at: float, warm: float, stretch: float) -> Growth | None:
    """One more look at what it holds; one that is not known changes nothing."""
    if held is None:
        return before
    if before is None:
        return Growth(at, warm, stretch, held, at, at, held)
    if at - before.ready < before.warm:
        return replace(before, base=max(before.base, held), at=at, begun=at, low=held)
    if at - before.begun >= before.stretch:
        lows = (*before.lows, min(before.low, held))[-STRETCHES:]
        return replace(before, at=at, begun=at, low=held, lows=lows)
    return replace(before, at=at, low=min(before.low, held))


def creeping(growth: Growth | None, available: float | None, least: int) -> str:
    """The sentence with its numbers, or nothing. `available`: what the host has left; without it nothing is said."""
    if growth is None or available is None or growth.grown < least or growth.pace <= 0:
        return ""
    lasts = available / growth.pace
    if lasts >= HORIZON_S:
        return ""
    return (
        f"its processes hold {Bytes(growth.grown)} more than when it had warmed up, "
        f"{say_duration(timedelta(seconds=growth.at - growth.ready))} ago, and more in each "
        f"{say_duration(timedelta(seconds=growth.stretch))} than in the one before; at this pace the "
        f"{Bytes(int(available))} that are left last {say_duration(timedelta(seconds=lasts))}"
    )
