"""Does every cycle of stop and start leave less of the host? (pure)

On unified-memory hosts the driver is known to keep a part of every ended engine until a reboot. Each cycle alone is too
small to be held against anybody; several in a row, each lower than the one before, are no chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from agent.action.record import Held
from agent.quantity import Bytes

STARTS = 3
"""So many starts in a row, each with less: two lost cycles, and the third restart is not made."""
HOST_STEP = Bytes.gib(1)
"""Other processes move MemAvailable by less than this between two starts, and not in one direction alone."""
CARD_STEP = Bytes.mib(256)


def leak(starts: Sequence[Held]) -> str | None:
    """The sentence with its numbers, or None. `starts`: what was there before each start of this boot, oldest first."""
    last = starts[-STARTS:]
    if len(last) < STARTS:
        return None
    host = [held.host for held in last]
    if falls([-1 if value is None else value for value in host], HOST_STEP) and None not in host:
        return said("host memory available before a start", [Bytes(value) for value in host if value is not None])
    for uuid in sorted(last[-1].cards):
        used = [held.cards.get(uuid) for held in last]
        known = [value for value in used if value is not None]
        if len(known) == STARTS and falls([-value for value in known], CARD_STEP):
            return said(f"memory in use on {uuid} before a start", [Bytes(value) for value in known])
    return None


def falls(values: Sequence[int], step: int) -> bool:
    return all(second < first - step for first, second in pairwise(values))


def said(what: str, values: Sequence[Bytes]) -> str:
    """As people read it."""
    return f"each cycle loses memory for good ({what}: {', then '.join(map(str, values))})"
