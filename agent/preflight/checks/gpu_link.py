"""Did each card's PCIe link do its best when the card last worked?

Held against the best that this host has seen of the same card: links downshift at idle, and some cards are x4 by
design. A riser or slot that trains to fewer lanes makes pipelines wait for it, and nothing says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.clock import timestamp
from agent.host.gpu import Gpu
from agent.host.links import Link, Links, seen
from agent.host.reading import Unknown, value_of
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, doubtful, good, unknown

ID = "gpu.link"
HINT = (
    "look at the card's slot, riser and power, and at AER lines in the kernel's log; "
    "where it was moved on purpose, take its UUID out of links.json in the agent's state folder"
)


async def look(case: Case) -> Answer:
    reading = await case.cards()
    if isinstance(reading, Unknown):
        return unknown(f"no card can be read: {reading.reason}")
    kept = await case.facts.links()
    if isinstance(kept, Unknown):
        return good(f"nothing to hold the links against: {kept.reason}")
    links = seen(kept.value, reading.value, reading.at.wall)
    booted = await case.facts.boot()
    since = reading.at.wall - (booted.value.seconds or 0.0) if not isinstance(booted, Unknown) else 0.0
    return judge(reading.value, links, since)


def judge(cards: Sequence[Gpu], links: Links, since: float) -> Answer:
    """`since`: when the host booted; what was seen before may have been mended."""
    details = {"links": {gpu.uuid: as_json(links[gpu.uuid]) for gpu in cards if gpu.uuid in links}}
    if lessened := list(troubles(cards, links, since)):
        return doubtful("; ".join(lessened), need="the best that was seen of it", hint=HINT, details=details)
    worked = [gpu for gpu in cards if gpu.uuid in links and (links[gpu.uuid].at or 0.0) >= since]
    return good(f"{len(worked)} of {len(cards)} seen at work since the boot, at their best", details=details)


def troubles(cards: Sequence[Gpu], links: Links, since: float) -> Iterator[str]:
    for gpu in cards:
        link = links.get(gpu.uuid)
        if link is None or link.at is None or link.at < since or not link.lessened:
            continue
        now = f"x{link.worked_width} of generation {link.worked_generation}"
        best = f"x{link.width} of generation {link.generation}"
        able = value_of(gpu.pcie_width_max)
        trained = f" (the slot lets it have x{able})" if able is not None and able < link.width else ""
        yield f"card {gpu.index}: PCIe {now} at work, where it had {best} before{trained}"


def as_json(link: Link) -> dict[str, object]:
    return {
        "best": [link.width, link.generation],
        "at_work": [link.worked_width, link.worked_generation],
        "at": timestamp(link.at) if link.at is not None else None,
    }


CHECK = Check(ID, "links that do their best at work", look, lambda c: c.uses_gpus, advisory=True)
