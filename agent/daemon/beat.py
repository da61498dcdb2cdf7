"""When the next look is due: on a beat that all deployments of one period share."""

from __future__ import annotations

from math import floor

SOONEST = 0.25
"""Of a period: the least between two looks that nothing but the beat calls for, so at most 1.25 periods pass."""
LEAST_S = 0.05


def due_in(sampled: float, now: float, period: float) -> float:
    """Seconds until the look after the one at `sampled`; both on one monotonic clock.

    Looks fall on whole multiples of the period. Deployments that look at one moment share what they read of the host
    (`adapters/together`): its process table alone costs milliseconds on a host with a thousand processes.
    """
    due = (floor(sampled / period + SOONEST) + 1) * period
    return max(LEAST_S, due - now)
