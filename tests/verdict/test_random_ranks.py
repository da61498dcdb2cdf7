"""Any traffic on two data-parallel ranks that work: never an act. Then one of them hangs, busy or idle: found in time.

Two of vLLM's schedulers in virtual time behind one front end that gives them requests in turn (`engines.py`); a rank
that hangs goes on being given its share, and publishes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from agent.engines.model import EngineKind, EngineReading
from tests.verdict.engines import LAUNCHES, Engine
from tests.verdict.moves import Move, schedules
from tests.verdict.series import Series, World, faults, first_fault, timeline

CALM_S = 420.0
"""Long enough for every rank to be asked for its token once: from then on it is known that a name counts."""
LATEST_S = 447.0 + 120.0 + 194.0 + 60.0 + 300.0 + 2 * 30.0
"""As for one rank; and the quiet of an idle one, with two canaries."""


quick = settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


class Life:
    """A script for a series: two ranks, their clients, and which of them hangs in the end."""

    def __init__(self, schedule: Sequence[Move], hangs: int | None = None, busy: bool = False) -> None:
        self.ranks = [Engine(EngineKind.VLLM), Engine(EngineKind.VLLM)]
        self.begun = [rank.clock.now() for rank in self.ranks]
        self.due = [
            (CALM_S + sum(move.seconds for move in schedule[:place]), move) for place, move in enumerate(schedule)
        ]
        self.length = CALM_S + float(sum(move.seconds for move in schedule))
        self.hangs, self.busy = hangs, busy
        self.own: set[tuple[int, str]] = set()
        """The agent's own requests: no clients."""
        self.turn = 0

    def __call__(self, world: World, at: float) -> None:
        for rank, begun in zip(self.ranks, self.begun, strict=True):
            rank.advance(begun + at)
        while self.due and self.due[0][0] <= at:
            self.do(self.due.pop(0)[1])
        if self.hangs is not None and at >= self.length and not self.ranks[self.hangs].hung:
            self.hang(self.ranks[self.hangs])
        self.show(world)

    def do(self, move: Move) -> None:
        count = min(move.count, 2) if move.prompt > 100_000 else move.count
        if move.what == "arrive":
            for _ in range(count):
                self.next().arrive(move.prompt, move.answer)
        if move.what == "leave":
            for rank in self.ranks:
                for name in rank.clients[: move.count]:
                    rank.leave(name)

    def next(self) -> Engine:
        self.turn += 1
        return self.ranks[self.turn % 2]

    def hang(self, rank: Engine) -> None:
        """In the middle of what runs, or of one more request; or with nothing to do, once all of its own is done."""
        if self.busy:
            rank.arrive(16, 600)
            rank.advance(rank.clock.now() + 10.0)
        elif rank.busy:
            return
        rank.hung = True

    def ask(self, name: str) -> float | None:
        number = int(name) if name else (self.turn + 1) % 2
        rank = self.ranks[number]
        takes = rank.token_after(rank.clock.now())
        self.own.add((number, rank.arrive(8, 1)))
        return takes

    def show(self, world: World) -> None:
        readings = [rank.reading() for rank in self.ranks]
        found = tuple(replace(one.ranks[0], rank=str(number)) for number, one in enumerate(readings))
        world.scrape = replace(readings[0], ranks=found)
        world.clients = sum(
            (number, name) not in self.own for number, rank in enumerate(self.ranks) for name in rank.clients
        )
        world.canary, world.aimed = (lambda _: self.ask("")), (lambda name, _: self.ask(name))
        if any(rank.busy and not rank.hung for rank in self.ranks):
            world.work()
        else:
            world.idle()


def play(life: Life, after: float) -> Series:
    return Series(life, life.length + after, engine=replace(LAUNCHES[EngineKind.VLLM], data_parallel=2))


@quick
@given(schedule=schedules(12))
def test_no_traffic_on_two_sound_ranks_leads_to_an_act(schedule: list[Move]) -> None:
    life = Life(schedule)
    ticks = play(life, 900).play()
    assert not faults(ticks), timeline(ticks)
    assert ticks[-1].window.marks.canaries.aims is True


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
@quick
@given(schedule=schedules(12))
def test_a_rank_that_hangs_after_any_traffic_is_found(rank: int, busy: bool, schedule: list[Move]) -> None:
    """An idle one hangs once its own work is done, which a prefill of 520,000 tokens may put off."""
    life = Life(schedule, hangs=rank, busy=busy)
    ticks = play(life, LATEST_S + 600).play()
    found = first_fault(ticks)
    assert found is not None, timeline(ticks)
    assert found.at >= life.length, timeline(ticks)
    assert found.verdict.kind == ("busy" if busy else "idle"), timeline(ticks)
    assert isinstance(found.window.last.scrape, EngineReading)
