"""Does an engine's own memory grow without end? (pure)

What an engine takes for itself (anonymous memory of its processes) rises while it warms up and with its load, and falls
again; a leak only rises. So the floor of the last while is held against the most that the warm-up took, and what the
host still has against the pace. Leaks of serving engines are slow and steady, and end in the kernel's killer: resident
memory that grows with the requests served (vllm-project/vllm#44490), up to a container's limit of 64 GiB
(vllm-project/vllm#50150).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from agent.quantity import Bytes, say_duration

HORIZON_S = 14 * 86_400.0
"""The host's memory lasts for longer than two weekly windows: it can be looked at again then."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Of one run of an engine. `ready`: when it was first seen ready; times in seconds of a monotonic clock.

    `base`: the most that it held in the warm-up, the `span` after `ready`. `low`: the least of the running stretch of
    that length, which began at `begun`; `floor`: the least of the one before it and what came since, None before.
    """

    ready: float
    span: float
    base: int
    at: float
    begun: float
    low: int
    before: int | None = None

    @property
    def floor(self) -> int | None:
        return None if self.before is None else min(self.before, self.low)

    @property
    def grown(self) -> int:
        """Bytes above the warm-up that it has not given back for a while."""
        return 0 if self.floor is None else self.floor - self.base


def grow(before: Growth | None, held: int | None, at: float, span: float) -> Growth | None:
    """One more look at what it holds; one that is not known changes nothing."""
    if held is None:
        return before
    if before is None:
        return Growth(at, span, held, at, at, held)
    if at - before.ready < before.span:
        return replace(before, base=max(before.base, held), at=at, begun=at, low=held)
    if at - before.begun >= before.span:
        return replace(before, at=at, before=min(before.low, held), begun=at, low=held)
    return replace(before, at=at, low=min(before.low, held))


def creeping(growth: Growth | None, available: float | None, least: int) -> str:
    """The sentence with its numbers, or nothing. `available`: what the host has left; without it nothing is said."""
    if growth is None or available is None or growth.grown < least:
        return ""
    seconds = growth.at - growth.ready
    lasts = available / (growth.grown / seconds)
    if lasts >= HORIZON_S:
        return ""
    return (
        f"its processes hold {Bytes(growth.grown)} more than when it had warmed up, "
        f"{say_duration(timedelta(seconds=seconds))} ago; at this pace the {Bytes(int(available))} that are left last "
        f"{say_duration(timedelta(seconds=lasts))}"
    )
