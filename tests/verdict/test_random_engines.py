"""Any traffic on an engine that works, in each engine's own dialect: never an act. Then it hangs: found in time.

The engines are the simulator's schedulers in virtual time; what the agent reads is their own text (`engines.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings

from agent.engines.model import EngineKind
from tests.verdict import scenarios as s
from tests.verdict.engines import LAUNCHES, Engine
from tests.verdict.moves import Move, schedules
from tests.verdict.series import Series, World, faults, first_fault, timeline

LATEST_S = 447.0 + 120.0 + 194.0 + 60.0
"""The long window, the allowance for kernels after a start, a canary's time-out, and the looks between them."""


quick = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
ENGINES = pytest.mark.parametrize("kind", list(LAUNCHES))


class Life:
    """A script for a series: the engine, its clients, and when it hangs."""

    def __init__(self, kind: EngineKind, schedule: Sequence[Move], hangs: bool) -> None:
        self.engine = Engine(kind)
        self.begun = self.engine.clock.now()
        self.due = [(sum(move.seconds for move in schedule[:place]), move) for place, move in enumerate(schedule)]
        self.length = float(sum(move.seconds for move in schedule))
        self.hangs = hangs

    def __call__(self, world: World, at: float) -> None:
        self.engine.advance(self.begun + at)
        while self.due and self.due[0][0] <= at:
            self.do(self.due.pop(0)[1])
        if self.hangs and at >= self.length and not self.engine.hung:
            self.hang()
        self.show(world, self.begun + at)

    def do(self, move: Move) -> None:
        count = min(move.count, 2) if move.prompt > 100_000 else move.count
        if move.what == "arrive":
            for _ in range(count):
                self.engine.arrive(move.prompt, move.answer)
        if move.what == "leave":
            for name in self.engine.clients[: move.count]:
                self.engine.leave(name)

    def hang(self) -> None:
        """In the middle of what runs, or of one more request."""
        self.engine.arrive(16, 600)
        self.engine.advance(self.engine.clock.now() + 10.0)
        self.engine.hung = True

    def show(self, world: World, now: float) -> None:
        engine = self.engine
        world.scrape, world.ping = engine.reading(), engine.pong(now)
        world.clients = len(engine.clients)
        world.canary = lambda asked: engine.token_after(asked)
        if engine.hung:
            world.cores, world.load, world.power = 1.0, None, None
            if engine.kind is EngineKind.LLAMACPP:  # its loop answers neither
                world.scrape = world.ping = s.TIMEOUT
        elif engine.busy:
            world.work()
        else:
            world.idle()


@ENGINES
@quick
@given(schedule=schedules(24))
def test_no_traffic_on_a_sound_engine_leads_to_an_act(kind: EngineKind, schedule: list[Move]) -> None:
    life = Life(kind, schedule, hangs=False)
    ticks = Series(life, life.length + 300, engine=LAUNCHES[kind]).play()
    assert not faults(ticks), timeline(ticks)


@ENGINES
@quick
@given(schedule=schedules(24))
def test_a_hang_after_any_traffic_is_found_in_time(kind: EngineKind, schedule: list[Move]) -> None:
    life = Life(kind, schedule, hangs=True)
    ticks = Series(life, life.length + LATEST_S, engine=LAUNCHES[kind]).play()
    found = first_fault(ticks)
    assert found is not None, timeline(ticks)
    assert found.at >= life.length, timeline(ticks)
    assert found.verdict.kind in {"busy", "idle"}, timeline(ticks)


@ENGINES
def test_the_engines_show_what_they_are_known_for(kind: EngineKind) -> None:
    """A lone prefill: no token counted, and steps to be seen all the same, in each engine's own way."""
    engine = Engine(kind)
    begun = engine.clock.now()
    engine.arrive(520_000, 10)
    engine.advance(begun + 30)
    before = engine.reading().ranks[0]
    engine.advance(begun + 60)
    after = engine.reading().ranks[0]
    assert after.generation_tokens == before.generation_tokens
    assert after.prompt_tokens == before.prompt_tokens
    assert after.progress != before.progress
    assert after.work
    if kind is EngineKind.SGLANG:
        assert (after.running, after.waiting) == (0, 0)
