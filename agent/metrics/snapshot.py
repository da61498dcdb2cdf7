"""What one exposition is made from: everything last seen, so that a scrape does no I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from agent.metrics.board import Board
from agent.metrics.trail import Point


@dataclass(frozen=True, slots=True)
class CardFigures:
    """One card's last readings; None where it does not say."""

    gpu: str
    """NVML's index, as text."""
    uuid: str
    memory_used: float | None = None
    memory_total: float | None = None
    utilization: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    pcie_width: float | None = None
    pcie_generation: float | None = None
    pcie_width_max: float | None = None
    pcie_generation_max: float | None = None
    lost: bool = False
    throttled: bool | None = None
    xids: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FolderFigures:
    """The file system of one of the agent's folders, in bytes."""

    available: float
    total: float


@dataclass(frozen=True, slots=True)
class CollectorFigures:
    """How one source of host figures did the last time."""

    success: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All of it."""

    version: str
    boards: tuple[Board, ...] = ()
    totals: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(`prompt_tokens` or `generation_tokens`, slug) → counted since the agent's start."""
    trails: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)
    """By slug: the last quarter of an hour, oldest point first."""
    ratios: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(slug, point) → measured ÷ claimed."""
    comparable: Mapping[str, bool] = field(default_factory=dict)
    """By slug: whether its claims are known to be of cards like those here."""
    verified: Mapping[str, float] = field(default_factory=dict)
    """By slug: when the deployed plan was last verified, in seconds of the epoch."""
    cards: tuple[CardFigures, ...] = ()
    memory_available: float | None = None
    driver_skew: bool | None = None
    folders: Mapping[str, FolderFigures] = field(default_factory=dict)
    """By name: `state`, `cache`; those that could be read."""
    collectors: Mapping[str, CollectorFigures] = field(default_factory=dict)
    tick_s: float | None = None


class Totals:
    """Counters over the restarts of the engines: an engine's own begin again at 0 with it."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], float] = {}
        self.values: dict[tuple[str, str], float] = {}

    def see(self, name: str, slug: str, raw: float | None) -> None:
        """Take the engine's own count; None is not seen, which counts nothing and loses nothing."""
        key = (name, slug)
        self.values.setdefault(key, 0.0)
        if raw is None:
            return
        last = self._last.get(key)
        self._last[key] = raw
        if last is not None:
            self.values[key] += raw - last if raw >= last else raw

    def keep(self, slugs: Collection[str]) -> None:
        """Forget all other deployments: they are gone."""
        for table in (self._last, self.values):
            for key in [key for key in table if key[1] not in slugs]:
                del table[key]
