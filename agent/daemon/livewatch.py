"""Normal traffic of every deployment held against its claims; slowness with a cause is told once, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from agent.clock import Clock
from agent.container.port import ContainerView
from agent.daemon.fleet import Fleet
from agent.engines.model import EngineReading
from agent.host.gpu import Gpu
from agent.host.port import GpuSource, Processes
from agent.host.reading import value_of
from agent.metrics.board import Board
from agent.samples.fold import cpu_cores
from agent.samples.model import Activity, Sample
from agent.verify.causes import Signs, causes, restart_mends, sentence, unlike
from agent.verify.live import BACK, Compared, Course, Look, step

PERIOD_S = 10.0
SLOW = "slow"
"""The kind of its events."""


class LiveWatch:
    """One comparison a deployment every ten seconds; the agent's samples are its only source until one is slow."""

    def __init__(self, fleet: Fleet, gpus: GpuSource, processes: Processes, clock: Clock) -> None:
        self._fleet = fleet
        self._gpus = gpus
        self._processes = processes
        self._clock = clock
        self._courses: dict[tuple[str, int], Course] = {}
        self._samples: dict[str, tuple[Sample, Sample]] = {}
        self.ratios: Mapping[tuple[str, str], float] = {}
        """(slug, `live` and point) → what is made now ÷ what is claimed."""
        self._mendable: dict[tuple[str, int], str] = {}

    def mendable(self, slug: str, generation: int) -> str:
        """Why this run of an engine is slow, in a sentence, where a new start may mend that; else nothing."""
        return self._mendable.get((slug, generation), "")

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(PERIOD_S)

    async def look(self) -> None:
        """All deployments once; what is gone is forgotten."""
        boards = dict(self._fleet.boards)
        keys = {(slug, board.record.generation) for slug, board in boards.items()}
        self._courses = {key: course for key, course in self._courses.items() if key in keys}
        self._mendable = {key: why for key, why in self._mendable.items() if key in keys}
        self._samples = {slug: pair for slug, pair in self._samples.items() if slug in boards}
        found = {slug: await self._one(slug, board) for slug, board in boards.items()}
        self.ratios = {(slug, one.point): one.ratio for slug, one in found.items() if one is not None}

    async def _one(self, slug: str, board: Board) -> Compared | None:
        if board.verdict is None or board.sample is None:
            return None
        self._keep(slug, board.sample)
        key = (slug, board.record.generation)
        course, compared = step(self._courses.get(key, Course()), self._look(board), board.plan.claims)
        self._courses[key] = course
        if compared is not None:
            told = await self._tell(slug, board, course, compared)
            self._courses[key] = replace(course, told=told)
        return compared

    def _keep(self, slug: str, sample: Sample) -> None:
        """The last two samples that looked at its processes, for how much they computed in between."""
        if not isinstance(sample.activity, Activity):
            return
        _, last = self._samples.get(slug, (sample, sample))
        if last is not sample or slug not in self._samples:
            self._samples[slug] = (last, sample)

    def _look(self, board: Board) -> Look:
        scrape = board.sample.scrape if board.sample else None
        figures = board.verdict.figures if board.verdict else {}
        kv_tokens = scrape.kv_tokens if isinstance(scrape, EngineReading) else None
        return Look(self._clock.now().mono, figures, kv_tokens)

    async def _tell(self, slug: str, board: Board, course: Course, compared: Compared) -> bool:
        """Whether it is told to be slow after this look."""
        if course.told:
            if compared.ratio < BACK:
                return True
            self._mendable.pop((slug, board.record.generation), None)
            await self._fleet.tell(
                slug, SLOW, f"decodes {compared.ratio:.2f} of what is claimed again", {"slow": False}
            )
            return False
        cards = self._cards(board)
        if not course.slow or unlike(board.plan, cards):
            return False
        found = causes(await self._signs(slug, board, course, compared, cards))
        if not any(cause.fault for cause in found):
            return False
        data = {"slow": True, "ratio": compared.ratio, "point": compared.point, "causes": [one.name for one in found]}
        if restart_mends(found):
            self._mendable[slug, board.record.generation] = sentence(compared, found)
        await self._fleet.tell(slug, SLOW, sentence(compared, found), data)
        return True

    def _cards(self, board: Board) -> tuple[Gpu, ...]:
        last = self._gpus.last()
        return tuple(gpu for gpu in last.value if gpu.uuid in board.plan.gpus) if last is not None else ()

    async def _signs(
        self, slug: str, board: Board, course: Course, compared: Compared, cards: tuple[Gpu, ...]
    ) -> Signs:
        look = self._look(board)
        return Signs(
            compared=compared,
            cards=cards,
            own=await self._own(board),
            zombies=look.number("zombie_requests"),
            acceptance=look.number("spec_decode_acceptance_ratio"),
            best_acceptance=course.best_acceptance,
            cores_a_process=cores_a_process(self._samples.get(slug)),
        )

    async def _own(self, board: Board) -> frozenset[int] | None:
        view = board.sample.container if board.sample else None
        if not isinstance(view, ContainerView) or view.pid is None:
            return None
        contained = value_of(await self._processes.in_container(view.id)) if board.runtime == "docker" else ()
        tree = value_of(await self._processes.tree(view.pid))
        if tree is None or contained is None:
            return None
        return frozenset(process.pid for process in (*tree, *contained))


def cores_a_process(pair: tuple[Sample, Sample] | None) -> float | None:
    """Cores that one process of the engine used on average between two samples; None where that cannot be told."""
    if pair is None or not isinstance(pair[1].activity, Activity):
        return None
    cores, count = cpu_cores(*pair), pair[1].activity.count
    return cores / count if cores is not None and count else None
