"""Host figures for the export, and the driver's Xid events for the loops."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

import structlog

from agent.action.host_trouble import HostTrouble, forgiven, looked, noted
from agent.clock import Clock
from agent.container.port import Runtime
from agent.errors import AgentError
from agent.host.gpu import Gpu, GpuEvent, GpuEventKind
from agent.host.model import DiskSpace
from agent.host.port import GpuSource, HostSource
from agent.host.reading import Known, Reading, Unknown, value_of
from agent.metrics.snapshot import CardFigures, CollectorFigures, FolderFigures
from agent.samples.model import Xid
from agent.verify.causes import HOLDING

log = structlog.get_logger()
T = TypeVar("T")
PERIOD_S = 10.0


def concerned(event: GpuEvent, cards: Sequence[Gpu]) -> tuple[str, ...]:
    """The UUIDs that a deployment may know it by: the card's, and those of the MIG slices that it hit."""
    slices = [one for card in cards if card.uuid == event.uuid for one in card.slices]
    hit = [one.uuid for one in slices if event.instance in ("", f"{one.gpu_instance}/{one.compute_instance}")]
    return (event.uuid, *hit)


class HostWatch:
    """One look at the host every ten seconds; one failing collector costs its own figures only, and says so."""

    def __init__(
        self,
        gpus: GpuSource,
        host: HostSource,
        runtimes: Mapping[str, Runtime],
        clock: Clock,
        on_xid: Callable[[Xid], None],
    ) -> None:
        self._gpus = gpus
        self._host = host
        self._runtimes = runtimes
        self._clock = clock
        self._on_xid = on_xid
        self.on_cards: Callable[[tuple[Gpu, ...]], Awaitable[None]] | None = None
        """Called with every reading of the cards."""
        self._xids: Counter[tuple[str, int]] = Counter()
        self._cards: tuple[Gpu, ...] = ()
        self._trouble = HostTrouble()
        self.on_trouble: Callable[[str, str], Awaitable[None]] | None = None
        """Called with a card's UUID (empty: the whole host) and a sentence when something new is wrong."""
        self._telling: set[asyncio.Future[None]] = set()
        self.collectors: dict[str, CollectorFigures] = {}
        self.memory_available: float | None = None
        self.driver_skew: bool | None = None
        self.watched: Mapping[str, str] = {}
        """Folders whose file systems are looked at: name → path."""
        self.folders: Mapping[str, FolderFigures] = {}

    async def run(self) -> None:
        end = self._gpus.subscribe(self._event)
        try:
            while True:
                await self._look()
                await asyncio.sleep(PERIOD_S)
        finally:
            end()

    async def _look(self) -> None:
        gpus, memory, _, _ = await asyncio.gather(
            self._timed("nvml", self._gpus.read),
            self._timed("memory", self._host.memory),
            self._disks(),
            asyncio.gather(*(self._timed(kind, partial(self._ask, one)) for kind, one in self._runtimes.items())),
        )
        self._cards = value_of(gpus) or ()
        self.driver_skew = value_of((await self._gpus.driver()).skewed) if self._cards else None
        if self.on_cards is not None and self._cards:
            await self.on_cards(self._cards)
        await self._judge(gpus)
        held = value_of(memory)
        available = held.available if held is not None else Unknown("the memory was not read")
        self.memory_available = float(available.value) if isinstance(available, Known) else None

    async def _disks(self) -> None:
        """How much room there is; a file system that does not answer costs its own figures only."""
        paths = dict(self.watched)
        spaces = await asyncio.gather(*(self._timed(f"disk_{name}", partial(self._host.disk, path)) for name, path in
                                        paths.items()))  # fmt: skip
        known = {name: value_of(space) for name, space in zip(paths, spaces, strict=True)}
        self.folders = {name: folder_figures(space) for name, space in known.items() if space is not None}

    def trouble(self, cards: Collection[str], accepted: Collection[str]) -> str:
        """What is wrong with these cards or the host that no start can mend; empty for nothing."""
        return self._trouble.of(cards, accepted)

    def forgive(self, cards: Collection[str]) -> None:
        """A person has dealt with what the driver reported of these cards."""
        self._trouble = forgiven(self._trouble, cards)

    async def _judge(self, gpus: Reading[tuple[Gpu, ...]]) -> None:
        """Before the next start fails: running engines go on for days on a host on which none can be started."""
        if isinstance(gpus, Unknown):
            return
        before, driver = self._trouble.told, await self._gpus.driver()
        self._trouble = looked(self._trouble, gpus.value, driver)
        for key, why in self._trouble.told.items():
            if before.get(key) != why and key not in self._trouble.xids and self.on_trouble is not None:
                await self.on_trouble(key, why)

    async def _ask(self, runtime: Runtime) -> Reading[object]:
        try:
            return Known(await runtime.facts(), at=self._clock.now())
        except AgentError as error:
            return Unknown(error.text)

    async def _timed(self, name: str, read: Callable[[], Awaitable[Reading[T]]]) -> Reading[T]:
        started = time.monotonic()
        reading = await read()
        good = isinstance(reading, Known)
        before = self.collectors.get(name)
        self.collectors[name] = CollectorFigures(good, time.monotonic() - started)
        if isinstance(reading, Unknown) and (before is None or before.success):
            log.warning("collector_failed", collector=name, reason=reading.reason)
        return reading

    def _event(self, event: GpuEvent) -> None:
        if event.kind is not GpuEventKind.XID:
            return
        log.warning("xid", uuid=event.uuid, pci=event.pci, xid=event.data)
        self._xids[(event.uuid, event.data)] += 1
        for uuid in concerned(event, self._cards):
            self._on_xid(Xid(uuid, event.data))
        before = self._trouble.told
        self._trouble = noted(self._trouble, event.uuid, event.data)
        why = self._trouble.told.get(event.uuid)
        if why is not None and before.get(event.uuid) != why and self.on_trouble is not None:
            task = asyncio.ensure_future(self.on_trouble(event.uuid, why))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    def cards(self) -> tuple[CardFigures, ...]:
        """The last readings, as the exposition takes them."""
        return tuple(card_figures(gpu, self._xids_of(gpu.uuid)) for gpu in self._cards)

    def _xids_of(self, uuid: str) -> Mapping[int, int]:
        return {number: count for (card, number), count in self._xids.items() if card == uuid}


def folder_figures(space: DiskSpace) -> FolderFigures:
    return FolderFigures(available=float(space.available), total=float(space.total))


def card_figures(gpu: Gpu, xids: Mapping[int, int]) -> CardFigures:
    return CardFigures(
        gpu=str(gpu.index),
        uuid=gpu.uuid,
        memory_used=number(gpu.memory_used),
        memory_total=number(gpu.memory_total),
        utilization=number(gpu.utilization),
        power_w=number(gpu.power_w),
        temperature_c=number(gpu.temperature_c),
        pcie_width=number(gpu.pcie_width),
        pcie_generation=number(gpu.pcie_generation),
        pcie_width_max=number(gpu.pcie_width_max),
        pcie_generation_max=number(gpu.pcie_generation_max),
        lost=gpu.lost is not None,
        throttled=not HOLDING.isdisjoint(gpu.throttle.value) if isinstance(gpu.throttle, Known) else None,
        xids=xids,
    )


def number(reading: Reading[T]) -> float | None:
    value = value_of(reading)
    return float(value) if isinstance(value, int | float) else None
