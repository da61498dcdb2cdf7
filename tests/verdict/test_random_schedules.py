"""Any order of healthy behaviours: never an act. Any of them before a fault: still found in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.verdict import scenarios as s
from tests.verdict.series import Series, World, faults, first_fault, timeline

PERIOD = 10.0


def idle(world: World, at: float, seconds: float) -> None:
    world.idle()
    world.clients = world.rank.running = world.rank.waiting = 0
    world.rank.kv = 0.0


def burst(world: World, at: float, seconds: float) -> None:
    s.decode(world, at, 64)
    world.rank.waiting = 32
    world.clients = 96


def slow(world: World, at: float, seconds: float) -> None:
    """One token every ten seconds."""
    s.decode(world, at, 1, pace=0.1)


def long_prefill(world: World, at: float, seconds: float) -> None:
    """Chunks of a prompt of the whole context: only the gauge moves."""
    world.work()
    world.clients = world.rank.running = 1
    world.rank.waiting = 0
    world.rank.kv = min(0.9, world.rank.kv + 0.003)


def disconnect(world: World, at: float, seconds: float) -> None:
    """Clients leave one by one, their requests end a look later."""
    s.decode(world, at, 3)
    world.clients = 3 if at % 20 else 2


def asleep(world: World, at: float, seconds: float) -> None:
    world.idle()
    world.rank.asleep = at < seconds - PERIOD
    world.rank.waiting = 2
    world.clients = 2


def missed_scrapes(world: World, at: float, seconds: float) -> None:
    s.decode(world, at)
    world.scrape = s.TIMEOUT if at < min(seconds - PERIOD, 60.0) else None


def compiling(world: World, at: float, seconds: float) -> None:
    world.idle()
    world.clients = world.rank.running = 2
    world.compilers = ("ptxas",) if at < min(seconds - PERIOD, 600.0) else ()
    world.rank.generated += 0 if world.compilers else 10


def restarted(world: World, at: float, seconds: float) -> None:
    s.decode(world, at)
    if at == 0:
        world.process_start = (world.process_start or 0.0) + 1
        world.rank.generated = world.rank.prompt = world.rank.finished = 0.0


Behaviour = Callable[[World, float, float], None]
BEHAVIOURS: tuple[Behaviour, ...] = (
    idle,
    burst,
    slow,
    long_prefill,
    disconnect,
    asleep,
    missed_scrapes,
    compiling,
    restarted,
)
Schedule = Sequence[tuple[int, int]]


def length(schedule: Schedule) -> float:
    return sum(steps for _, steps in schedule) * PERIOD


def script_of(schedule: Schedule):
    """Each behaviour for so many samples, one after the other; every change of requests is progress."""

    def script(world: World, now: float) -> None:
        world.rank.asleep, world.scrape, world.compilers = False, None, ()
        begun = 0.0
        for index, steps in schedule:
            seconds = steps * PERIOD
            if now < begun + seconds:
                if now == begun:
                    world.rank.finished += 1
                BEHAVIOURS[index](world, now - begun, seconds)
                return
            begun += seconds

    return script


schedules = st.lists(st.tuples(st.integers(0, len(BEHAVIOURS) - 1), st.integers(2, 40)), min_size=1, max_size=10)
quick = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@quick
@given(schedules)
def test_no_order_of_healthy_behaviours_leads_to_an_act(schedule: Schedule):
    ticks = Series(script_of(schedule), length(schedule) - PERIOD).play()
    assert not faults(ticks), timeline(ticks)


@quick
@given(schedules)
def test_a_hang_is_found_in_time_whatever_came_before(schedule: Schedule):
    """At most the canary's time-out and the window with its allowances (180 + 120 s for kernels) after it began."""
    begins = length(schedule)
    healthy = script_of(schedule)

    def script(world: World, now: float) -> None:
        if now < begins:
            healthy(world, now)
            return
        if now == begins:
            world.rank.asleep, world.scrape, world.compilers = False, None, ()
            world.rank.running, world.rank.kv = 2, 0.31
        s.hang(world, now - begins)

    ticks = Series(script, begins + 447 + 120 + 194 + 60).play()
    found = first_fault(ticks)
    assert found is not None, timeline(ticks)
    assert found.at >= begins, timeline(ticks)
    assert found.verdict.kind == "busy"
