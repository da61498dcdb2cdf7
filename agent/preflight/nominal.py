"""Nominal sizes: a "64 GB" card shows a little less than it is called by, and so does a "373 GB" host."""

from __future__ import annotations

from agent.quantity import Bytes

TOLERANCE = 0.05


def at_least(found: Bytes, nominal: Bytes) -> bool:
    """Whether `found` passes for `nominal`, 5 % tolerated."""
    return found >= nominal * (1 - TOLERANCE)
