"""Lives of engines as state machines: whatever healthy ones do, in any order, is left alone; faults are found in time.

The wall clock jumps, nobody looks for a while, scrapes are missed, a person sees Xids that only tell. The machine of
faults lives on after each: the engine is started again, and the next fault meets what came before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.container.port import RunState
from agent.samples.model import Health, Miss, Missed
from agent.verdict.model import Remedy
from tests.verdict import scenarios as s
from tests.verdict import test_random_schedules as lives
from tests.verdict.series import IDLE_W, Player, Script, Series, World, timeline

looks = st.integers(2, 30)
LIMITS = settings(
    max_examples=80,
    stateful_step_count=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


class Life(RuleBasedStateMachine):
    """Healthy behaviours, each for some looks."""

    player: Player

    @initialize(just_started=st.booleans())
    def begin(self, just_started: bool) -> None:
        """An engine that was ready for an hour, or for a moment."""
        self.player = Series(s.nothing, 0, ready_since=30.0 if just_started else 3600.0).player()

    def live(self, behaviour: lives.Behaviour, count: int) -> None:
        """So many looks at one behaviour. Its start is progress: requests have come or gone."""
        settle(self.player.world)
        self.player.world.rank.finished += 1
        begun = self.player.at
        seconds = count * self.player.period
        for _ in range(count):
            self.player.look(lambda world, at: behaviour(world, at - begun, seconds))

    @rule(count=looks)
    def idles(self, count: int) -> None:
        self.live(lives.idle, count)

    @rule(count=looks)
    def has_a_burst(self, count: int) -> None:
        self.live(lives.burst, count)

    @rule(count=looks)
    def makes_slow_tokens(self, count: int) -> None:
        self.live(lives.slow, count)

    @rule(count=looks)
    def runs_a_long_prefill(self, count: int) -> None:
        self.live(lives.long_prefill, count)

    @rule(count=looks)
    def loses_clients(self, count: int) -> None:
        self.live(lives.disconnect, count)

    @rule(count=looks)
    def sleeps(self, count: int) -> None:
        self.live(lives.asleep, count)

    @rule(count=looks)
    def is_paused_by_the_runtime(self, count: int) -> None:
        def paused(world: World, at: float, seconds: float) -> None:
            world.state = RunState.PAUSED if at < seconds - 10 else RunState.RUNNING

        self.live(paused, count)

    @rule(count=looks)
    def misses_scrapes(self, count: int) -> None:
        self.live(lives.missed_scrapes, count)

    @rule(count=looks)
    def compiles(self, count: int) -> None:
        self.live(lives.compiling, count)

    @rule(count=looks)
    def restarts_itself(self, count: int) -> None:
        self.live(lives.restarted, count)

    @rule(number=st.sampled_from([13, 31, 43, 45, 63, 94]))
    def has_an_xid_and_goes_on(self, number: int) -> None:
        def told(world: World, at: float, seconds: float) -> None:
            s.decode(world, at)
            world.xids += [number] if at == 0 else []

        self.live(told, 3)

    @rule(seconds=st.sampled_from([-86_400.0, -60.0, 30.0, 86_400.0 * 365]))
    def has_its_wall_clock_set(self, seconds: float) -> None:
        self.player.wall_shift += seconds

    @rule(count=st.integers(2, 200))
    def is_not_looked_at(self, count: int) -> None:
        """The host slept, or the agent was busy."""
        for _ in range(count):
            self.player.skip()

    @invariant()
    def nothing_is_done_to_it(self) -> None:
        acts = [tick for tick in self.player.ticks if tick.verdict.remedy is not Remedy.NONE]
        assert not acts, timeline(self.player.ticks)


def settle(world: World) -> None:
    """What the last behaviour has switched on is off."""
    world.rank.asleep, world.scrape, world.compilers, world.state = False, None, (), RunState.RUNNING
    world.health, world.canary = Health(200, 0.01), lambda asked: 0.2


# ── faults ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Fault:
    """What breaks, how long it may take to be found (after any life before it), and what it may be called."""

    script: Script
    within: float
    kinds: frozenset[str]


def hangs(world: World, at: float) -> None:
    s.hang(world, at)
    world.rank.running, world.rank.kv = 2, 0.31


def spins(world: World, at: float) -> None:
    s.f2(world, at)
    world.rank.running, world.rank.kv = 2, 0.31


def zombie(world: World, at: float) -> None:
    s.f8(world, at)


def idle_hang(world: World, at: float) -> None:
    lives.idle(world, at, 0.0)
    world.clients, world.canary = 2, lambda asked: None


def refuses(world: World, at: float) -> None:
    world.scrape = world.health = Missed(Miss.REFUSED, "connection refused")
    world.cores, world.power, world.load = 0.0, IDLE_W, 0.0


STALL = 447.0 + 120.0 + 194.0 + 60.0
"""The long window, the allowance for kernels after a start, a canary's time-out, and the looks between them."""

FAULTS = [
    Fault(hangs, STALL, frozenset({"busy"})),
    Fault(spins, STALL, frozenset({"busy"})),
    Fault(zombie, 150.0, frozenset({"zombie_held", "zombie_burning"})),
    Fault(idle_hang, 374.0 + 60.0, frozenset({"idle"})),
    Fault(refuses, 40.0, frozenset({"refused"})),
    Fault(s.f4, 10.0, frozenset({"exit"})),
    Fault(s.f5, 30.0, frozenset({"engine_dead"})),
    Fault(s.f18, 10.0, frozenset({"xid"})),
    Fault(s.f27, 10.0, frozenset({"host_oom"})),
]


class Fate(Life):
    """The same lives, with faults among them; after each the engine is a new one."""

    @rule(fault=st.sampled_from(FAULTS))
    def breaks(self, fault: Fault) -> None:
        settle(self.player.world)
        begun = self.player.at
        while self.player.at <= begun + fault.within:
            tick = self.player.look(lambda world, at: fault.script(world, at - begun))
            if tick.verdict.remedy is not Remedy.NONE:
                break
        assert tick.verdict.kind in fault.kinds, timeline(self.player.ticks)
        self.begin(just_started=True)


TestHealthyLives = Life.TestCase
TestHealthyLives.settings = LIMITS
TestFaultsInLives = Fate.TestCase
TestFaultsInLives.settings = LIMITS
