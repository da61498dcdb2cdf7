"""What the PCIe links of cards have been seen to do on this host: the best ever, and the last at work (pure).

A link downshifts when its card idles, and some cards are x4 by design; so a link is held against its own best alone,
and only by what it did while its card worked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from agent.host.gpu import Gpu
from agent.host.reading import value_of

AT_WORK = 0.3
"""Utilization from which a link counts as loaded."""


@dataclass(frozen=True, slots=True)
class Link:
    """One card's link: lanes and PCIe generation, the best ever and the last at work, `at` seconds since the epoch."""

    width: int
    generation: int
    worked_width: int | None = None
    worked_generation: int | None = None
    at: float | None = None

    @property
    def lessened(self) -> bool:
        """Whether it did less when it last worked than it once could."""
        if self.worked_width is None or self.worked_generation is None:
            return False
        return self.worked_width < self.width or self.worked_generation < self.generation


Links = Mapping[str, Link]
"""UUID of a card → its link."""


def seen(links: Links, cards: Iterable[Gpu], now: float) -> dict[str, Link]:
    """`links` after one more look at the cards; cards that do not tell stay as they were."""
    fresh = dict(links)
    for gpu in cards:
        width, generation = value_of(gpu.pcie_width), value_of(gpu.pcie_generation)
        if not gpu.uuid or not width or not generation:
            continue
        best = fresh.get(gpu.uuid, Link(width, generation))
        best = replace(best, width=max(best.width, width), generation=max(best.generation, generation))
        works = (value_of(gpu.utilization) or 0.0) >= AT_WORK
        fresh[gpu.uuid] = replace(best, worked_width=width, worked_generation=generation, at=now) if works else best
    return fresh


def same_links(one: Links, other: Links) -> bool:
    """Whether they differ in nothing but when a card was last seen at work."""
    return {uuid: replace(link, at=None) for uuid, link in one.items()} == {
        uuid: replace(link, at=None) for uuid, link in other.items()
    }


def to_json(links: Links) -> dict[str, Any]:
    return {uuid: asdict(link) for uuid, link in links.items()}


def from_json(document: Mapping[str, Any]) -> dict[str, Link]:
    """Raises TypeError for what is none."""
    return {uuid: Link(**link) for uuid, link in document.items()}
