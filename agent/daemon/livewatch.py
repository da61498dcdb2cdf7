"""Normal traffic of every deployment held against its claims; slowness with a cause is told once, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from agent.clock import Clock
from agent.container.port import ContainerView
from agent.daemon.effort import Efforts
from agent.daemon.fleet import Fleet
from agent.daemon.guard import attempt
from agent.engines.model import EngineReading
from agent.host.gpu import Gpu
from agent.host.port import GpuSource, Processes
from agent.host.process import Process
from agent.host.reading import value_of
from agent.metrics.board import Board
from agent.verdict.model import Judged, Verdict
from agent.verify.causes import Neighbour, Signs, causes, guests, restart_mends, sentence, unlike
from agent.verify.live import BACK, Compared, Course, look_of, step

PERIOD_S = 10.0
OLD_S = 60.0
"""What was seen so long ago is not how it is now: an engine that is not looked at, a driver that hangs."""
SLOW = "slow"
"""The kind of its events."""
ANEW = "runs anew: what was said of its last run's pace is over, and it is measured from here on"


class LiveWatch:
    """One comparison a deployment every ten seconds; the agent's samples are its only source until one is slow."""

    def __init__(self, fleet: Fleet, gpus: GpuSource, processes: Processes, clock: Clock) -> None:
        self._fleet = fleet
        self._gpus = gpus
        self._processes = processes
        self._clock = clock
        self._courses: dict[tuple[str, int], Course] = {}
        self._efforts = Efforts()
        self.ratios: Mapping[tuple[str, str], float] = {}
        """(slug, `live` and point) → what is made now ÷ what is claimed."""
        self.comparable: Mapping[str, bool] = {}
        """Slug → whether its claims are known to be of cards like those that it has; of what claims nothing none."""
        self._mendable: dict[tuple[str, int], str] = {}

    def mendable(self, slug: str, generation: int) -> str:
        """Why this run of an engine is slow, in a sentence, where a new start may mend that; else nothing."""
        return self._mendable.get((slug, generation), "")

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(PERIOD_S)

    async def look(self) -> None:
        """All deployments once; what is gone is forgotten, and one's trouble costs the others nothing."""
        boards = dict(self._fleet.boards)
        keys = {(slug, board.record.generation) for slug, board in boards.items()}
        over = [slug for (slug, run), course in self._courses.items() if course.told and (slug, run) not in keys]
        self._courses = {key: course for key, course in self._courses.items() if key in keys}
        self._mendable = {key: why for key, why in self._mendable.items() if key in keys}
        self._efforts.keep(boards)
        for slug in over:
            if slug in boards:
                await self._fleet.tell(slug, SLOW, ANEW, {"slow": False})
        self.comparable = {slug: self._comparable(board) for slug, board in boards.items() if board.plan.claims}
        found = {slug: await attempt(f"traffic of {slug}", self._one(slug, board)) for slug, board in boards.items()}
        self.ratios = {(slug, one.point): one.ratio for slug, one in found.items() if isinstance(one, Compared)}

    async def _one(self, slug: str, board: Board) -> Compared | None:
        if board.verdict is None or board.sample is None or self._old(board.sample.at.mono, board):
            return None
        key = (slug, board.record.generation)
        look = look_of(board.sample, board.verdict.figures)
        course = step(self._courses.get(key, Course()), look, board.plan.claims)
        self._courses[key] = course
        if course.compared is not None:
            told = await self._tell(slug, board, course, course.compared)
            self._courses[key] = replace(course, told=told)
        return course.compared

    def _read(self, board: Board) -> bool:
        """Whether its figures are the engine's own word of now."""
        sample = board.sample
        return sample is not None and isinstance(sample.scrape, EngineReading) and not self._old(sample.at.mono, board)

    def _comparable(self, board: Board) -> bool:
        last = self._gpus.last()  # however old: cards keep their names
        return last is not None and not unlike(board.plan, own_cards(last.value, board))

    def _old(self, at: float, board: Board) -> bool:
        return self._clock.now().mono - at > max(OLD_S, 3 * (board.plan.watch.period.value or 0.0))

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
        found = causes(await self._with_shares(await self._signs(slug, board, course, compared, cards)))
        if not any(cause.fault for cause in found):
            return False
        data = {"slow": True, "ratio": compared.ratio, "point": compared.point, "causes": [one.name for one in found]}
        if restart_mends(found):
            self._mendable[slug, board.record.generation] = sentence(compared, found)
        await self._fleet.tell(slug, SLOW, sentence(compared, found), data)
        return True

    def _cards(self, board: Board) -> tuple[Gpu, ...]:
        """As they were read of late; of cards that cannot be read now nothing is known."""
        last = self._gpus.last()
        if last is None or self._clock.now().mono - last.at.mono > OLD_S:
            return ()
        return own_cards(last.value, board)

    async def _signs(
        self, slug: str, board: Board, course: Course, compared: Compared, cards: tuple[Gpu, ...]
    ) -> Signs:
        verdict = board.verdict
        processes = await self._of(board)
        at = self._clock.now().mono
        return Signs(
            compared=compared,
            cards=cards,
            own=None if processes is None else frozenset(process.pid for process in processes),
            neighbours=await self._neighbours(slug),
            zombies=number(verdict, "zombie_requests"),
            settled=verdict is not None and verdict.state is Judged.ZOMBIE,
            acceptance=number(verdict, "spec_decode_acceptance_ratio"),
            best_acceptance=course.best_acceptance,
            busiest=self._efforts.busiest((slug, board.record.generation), processes, at),
        )

    async def _with_shares(self, signs: Signs) -> Signs:
        """With who computed of late, where somebody is there of whom that is not known otherwise."""
        asked = {guest.gpu.uuid for guest in guests(signs)}
        return replace(signs, shares=await self._gpus.shares(asked)) if asked else signs

    async def _neighbours(self, slug: str) -> tuple[Neighbour, ...]:
        """The other deployments that have an engine."""
        found = []
        for other, board in dict(self._fleet.boards).items():
            if other == slug or pid_of(board) is None:
                continue
            processes = await self._of(board)
            pids = None if processes is None else frozenset(process.pid for process in processes)
            running = number(board.verdict, "requests_running") if self._read(board) else None
            found.append(Neighbour(other, frozenset(board.plan.gpus), pids, running))
        return tuple(found)

    async def _of(self, board: Board) -> tuple[Process, ...] | None:
        """All processes of a deployment; None where one of them might be missing."""
        view, pid = board.sample.container if board.sample else None, pid_of(board)
        if not isinstance(view, ContainerView) or pid is None:
            return None
        contained = value_of(await self._processes.in_container(view.id)) if board.runtime == "docker" else ()
        tree = value_of(await self._processes.tree(pid))
        if tree is None or contained is None:
            return None
        return tuple({process.pid: process for process in (*tree, *contained)}.values())


def own_cards(cards: tuple[Gpu, ...], board: Board) -> tuple[Gpu, ...]:
    return tuple(gpu for gpu in cards if gpu.uuid in board.plan.gpus)


def pid_of(board: Board) -> int | None:
    view = board.sample.container if board.sample else None
    return view.pid if isinstance(view, ContainerView) and view.running else None


def number(verdict: Verdict | None, name: str) -> float | None:
    value = verdict.figures.get(name) if verdict is not None else None
    return float(value) if isinstance(value, int | float) else None
