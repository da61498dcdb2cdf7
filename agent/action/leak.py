"""Does every cycle of stop and start leave less of the host? (pure)

On unified-memory hosts the driver is known to keep a part of every ended engine until a reboot. Each cycle alone is too
small to be held against anybody; several in a row, each lower than the one before, are no chance. Memory that a living
process or tmpfs has is not lost: somebody else's program that grows meanwhile is not held against the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from agent.action.record import Held
from agent.quantity import Bytes

STARTS = 3
"""So many starts in a row, each with less: two lost cycles, and the third restart is not made."""
HOST_STEP = Bytes.gib(1)
"""What the kernel itself holds moves by less than this between two starts, and not in one direction alone."""
CARD_STEP = Bytes.mib(256)


def leak(starts: Sequence[Held]) -> str | None:
    """The sentence with its numbers, or None. `starts`: what was there before each start of this boot, oldest first."""
    last = starts[-STARTS:]
    if len(last) < STARTS:
        return None
    host = [value for value in host_left(last) if value is not None]
    if len(host) == STARTS and falls(host, HOST_STEP):
        return said("host memory that is available or in use by somebody, before a start", list(map(Bytes, host)))
    for uuid in sorted(last[-1].cards):
        lost = [value for held in last if (value := unowned(held, uuid)) is not None]
        if len(lost) == STARTS and falls([-value for value in lost], CARD_STEP):
            return said(f"memory on {uuid} that no process has, before a start", list(map(Bytes, lost)))
    return None


def host_left(starts: Sequence[Held]) -> list[int | None]:
    """What is available, with what processes and tmpfs have; a part that one of them does not know counts in none."""
    parts = [[held.anonymous for held in starts], [held.shared for held in starts]]
    known = [part for part in parts if None not in part]
    return [
        None if held.host is None else held.host + sum(part[number] or 0 for part in known)
        for number, held in enumerate(starts)
    ]


def unowned(held: Held, uuid: str) -> int | None:
    """Memory in use on a card that no living process has; None where that is not known."""
    used, owned = held.cards.get(uuid), held.owned.get(uuid)
    return used - owned if used is not None and owned is not None else None


def falls(values: Sequence[int], step: int) -> bool:
    return all(second < first - step for first, second in pairwise(values))


def said(what: str, values: Sequence[Bytes]) -> str:
    """As people read it."""
    return f"each cycle loses memory for good ({what}: {', then '.join(map(str, values))})"
