"""Restarts that can wait: which can, which never do, once a window, with evidence, and only where it makes sense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agent.action.decide import decide
from agent.action.leak import HOST_STEP, STARTS
from agent.action.model import Nothing, SaveEvidence, Step, Stop
from agent.action.record import Deployment, Held, Reason, State, Supervision, Wear, Wearing
from agent.action.seen import Seen, Upkeep, Worn
from agent.action.transition import look
from agent.action.wear import waits
from agent.clock import Instant
from agent.container.port import ContainerView, RunState
from agent.verdict.kinds import FAULT_KINDS, Kind
from agent.verdict.model import Judged, Remedy, Verdict
from tests.action.world import World, fault, healthy, watch

CLOSED = "the next maintenance window opens 2026-12-06 03:00+00:00"
OPENED = 1_796_526_000.0
NIGHT = Upkeep(windows=True, opened=OPENED, restart_for=frozenset({"slow", "memory"}), settled_s=600.0, drain_s=60.0)
DAY = replace(NIGHT, opened=None)
SLOW = Worn(Wear.SLOW, "decodes 0.40 of what is claimed; likely because ranks wait for each other")
MEMORY = Worn(Wear.MEMORY, "its processes hold 9 GiB more than when it had warmed up")


def fresh(**more: object) -> Deployment:
    return Deployment("demo", "plan-1", boot_id="boot-1", **more)  # type: ignore[arg-type]


def running(verdict: Verdict, **more: object) -> Seen:
    """A look at generation 1, an hour after its wear was first seen."""
    view = ContainerView("c", "demo", "demo", "plan-1", 1, RunState.RUNNING, pid=7)
    seen = Seen(Instant(5000.0, OPENED + 60.0), watch(), "boot-1", container=view, verdict=verdict, upkeep=NIGHT)
    return replace(seen, **more)  # type: ignore[arg-type]


WORN = fresh(
    state=State.READY, generation=1, container="c", started_at=1.0, ready_at=2.0, last_good="plan-1", checked="plan-1",
    imaged="plan-1", wearing=Wearing(Wear.SLOW, SLOW.why, 1400.0, kept=True),
)  # fmt: skip


# ── which can wait, and which never do ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", sorted(FAULT_KINDS))
@pytest.mark.parametrize("state", [Judged.STALLED, Judged.ZOMBIE, Judged.DEAD])
def test_a_fault_never_waits_whatever_else_the_engine_suffers_from(kind: str, state: Judged) -> None:
    """Closed window, worn engine, a restart that waits: a fault of any kind is acted on at once."""
    seen = running(fault(kind, state=state), window=CLOSED, upkeep=DAY, worn=(SLOW,))
    step = decide(replace(WORN, restart_waits="slow"), seen)
    assert isinstance(step, SaveEvidence)
    assert step.kind == kind
    record = replace(WORN, fault=look(WORN, seen, 10.0).fault)
    assert not isinstance(decide(record, seen), Nothing)


@pytest.mark.parametrize(
    "verdict",
    [
        pytest.param(Verdict(Judged.READY, "ready", kind=Kind.STALE_GAUGE), id="a stale gauge"),
        pytest.param(Verdict(Judged.SUSPECT, "wait and are not taken", kind=Kind.UNADMITTED), id="not admitted"),
        pytest.param(Verdict(Judged.STARTING, "loads", kind=Kind.START_SLOW), id="a slow start"),
        pytest.param(Verdict(Judged.ASLEEP, "sleeps"), id="asleep"),
        pytest.param(Verdict(Judged.UNOBSERVABLE, "cannot look"), id="not seen"),
    ],
)
def test_what_no_restart_mends_or_nobody_knows_is_left_alone_in_the_window(verdict: Verdict) -> None:
    record = replace(WORN, wearing=None)
    seen = running(verdict)
    assert isinstance(decide(look(record, seen, 10.0), seen), Nothing)


@pytest.mark.parametrize("state", [Judged.STARTING, Judged.ASLEEP, Judged.UNOBSERVABLE])
def test_a_worn_engine_is_restarted_only_while_it_serves(state: Judged) -> None:
    step = decide(WORN, running(Verdict(state, "why"), worn=(SLOW,)))
    assert isinstance(step, Nothing)


# ── when, and what stands in the way ──────────────────────────────────────────────────────────────────────────────

LEAKS = tuple(Held(host=100 * HOST_STEP - number * 2 * HOST_STEP) for number in range(STARTS))


@pytest.mark.parametrize(
    ("record", "seen", "expect"),
    [
        pytest.param({}, {}, "restarts in the maintenance window: decodes 0.40", id="now"),
        pytest.param({}, {"window": CLOSED, "upkeep": DAY}, f"so a restart waits: {CLOSED}", id="closed"),
        pytest.param({}, {"upkeep": replace(NIGHT, windows=False)}, "", id="no windows at all"),
        pytest.param({}, {"upkeep": Upkeep()}, "", id="off"),
        pytest.param({}, {"upkeep": replace(NIGHT, restart_for=frozenset({"memory"}))}, "", id="not for this"),
        pytest.param({"wearing": replace(WORN.wearing, since=4500.0)}, {}, "", id="not for long enough"),
        pytest.param({"window_used": OPENED}, {}, "in this maintenance window already", id="once a window"),
        pytest.param({"window_used": OPENED - 86_400.0}, {}, "restarts in the", id="in another window"),
        pytest.param({}, {"broken": "driver skew"}, "no restart for it: driver skew", id="a broken host"),
        pytest.param({}, {"host_wait": 60.0}, "restarted too often", id="the host's budget"),
        pytest.param({"restarts": (1.0, 2.0, 3.0)}, {}, "no restart is left", id="no budget for a failing start"),
        pytest.param({"starts": LEAKS}, {}, "each cycle loses memory", id="a host that loses memory"),
        pytest.param({"supervision": Supervision.OBSERVE}, {}, "observes only, would restart", id="observe"),
        pytest.param({"supervision": Supervision.PAUSED}, {}, "paused by a person", id="paused"),
        pytest.param({"wearing": replace(WORN.wearing, kept=False)}, {}, "keeps the evidence", id="evidence first"),
    ],
)
def test_in_the_window_and_not_before(record: dict[str, object], seen: dict[str, object], expect: str) -> None:
    """One thing changed at a time."""
    step = decide(replace(WORN, **record), running(healthy(), worn=(SLOW,), **seen))  # type: ignore[arg-type]
    assert expect in step.why
    kinds: dict[str, type[Step]] = {"restarts in the": Stop, "keeps the evidence": SaveEvidence}
    assert type(step) is next((kind for words, kind in kinds.items() if step.why.startswith(words)), Nothing)


@pytest.mark.parametrize(
    ("record", "seen", "word"),
    [
        ({}, {}, ""),
        ({}, {"window": CLOSED}, "slow"),
        ({"wearing": Wearing(Wear.MEMORY, "grows", 1000.0)}, {"window": CLOSED}, "memory"),
        ({"wearing": None}, {"window": CLOSED}, ""),
        ({"restart_at_window": True}, {"window": CLOSED}, "person"),
        ({"at_window": True, "next_plan": "plan-2"}, {"window": CLOSED}, "plan"),
        ({"at_window": True}, {"window": CLOSED}, "slow"),
        ({"restart_at_window": True}, {}, ""),
    ],
)
def test_whose_restart_waits_is_one_word(record: dict[str, object], seen: dict[str, object], word: str) -> None:
    found = waits(replace(WORN, **record), running(healthy(), **seen))  # type: ignore[arg-type]
    assert found == word


def test_wear_is_dated_from_its_first_look_and_forgotten_when_it_is_over() -> None:
    """Another kind begins anew; the words of the first look stay, so that the disk is not written at every tick."""
    record = replace(WORN, wearing=None)

    def after(record: Deployment, mono: float, *worn: Worn) -> Deployment:
        return look(record, running(healthy(), worn=worn, now=Instant(mono, OPENED)), 10.0)

    first = after(record, 100.0, SLOW)
    assert first.wearing == Wearing(Wear.SLOW, SLOW.why, 100.0)
    assert after(first, 200.0, replace(SLOW, why="other words"), MEMORY).wearing == first.wearing
    assert after(first, 200.0, MEMORY).wearing == Wearing(Wear.MEMORY, MEMORY.why, 200.0)
    assert after(first, 200.0).wearing is None


# ── whole lives ───────────────────────────────────────────────────────────────────────────────────────────────────


def worn_until(generation: int, worn: Worn = SLOW) -> Callable[[int], tuple[Worn, ...]]:
    return lambda now: (worn,) if now < generation else ()


def acts(world: World) -> list[str]:
    return [type(step).__name__ for step in world.steps if not isinstance(step, Nothing)]


def test_it_waits_through_the_day_and_is_done_at_night() -> None:
    """Evidence, drain, a whole take-down, one new generation; no budget is spent, and the counters tell it."""
    world = World(lambda _: healthy(), worn=worn_until(2), window=CLOSED, upkeep=DAY)
    record = world.run(fresh(), 100)
    assert world.created == [1]
    assert record.restart_waits == "slow"
    assert world.steps[-1].why.endswith(f"so a restart waits: {CLOSED}")
    world.window, world.upkeep, world.clients = "", NIGHT, 3
    world.steps.clear()
    record = world.run(record, 3)
    assert acts(world) == ["SaveEvidence", "Stop"]
    assert record.takedown is not None
    assert (record.takedown.reason, record.takedown.drain_s) == (Reason.WINDOW, 60.0)
    assert "3 client connections" in world.steps[-1].why
    record = world.run(record, 40)
    assert world.created == [1, 2]
    assert (record.state, record.restarts, record.restart_waits, record.wearing) == (State.READY, (), "", None)
    assert record.counts["restarts.slow"] == record.counts["incidents.slow"] == 1


def test_what_a_restart_does_not_mend_is_not_tried_twice_in_one_window() -> None:
    """Still slow: one restart this night, and one the next."""
    world = World(lambda _: healthy(), worn=worn_until(99), upkeep=NIGHT)
    record = world.run(fresh(), 400)
    assert world.created == [1, 2]
    assert "that did not mend it" in world.steps[-1].why
    world.upkeep = replace(NIGHT, opened=OPENED + 86_400.0)
    record = world.run(record, 300)
    assert world.created == [1, 2, 3]


def test_observe_counts_it_once_a_window() -> None:
    world = World(lambda _: healthy(), worn=worn_until(99), upkeep=NIGHT)
    record = world.run(fresh(supervision=Supervision.OBSERVE), 300)
    assert world.created == [1]
    assert record.counts["would.slow"] == 1


def test_a_fault_that_comes_while_it_waits_is_mended_at_once_and_ends_the_wait() -> None:
    looks = {"stalls": False}
    world = World(
        lambda generation: fault() if looks["stalls"] and generation == 1 else healthy(),
        worn=worn_until(2), window=CLOSED, upkeep=DAY,
    )  # fmt: skip
    record = world.run(fresh(), 100)
    looks["stalls"] = True
    record = world.run(record, 60)
    assert world.created == [1, 2]
    assert len(record.restarts) == 1
    assert record.restart_waits == ""


@pytest.mark.parametrize("point", range(1, 80, 2))
def test_a_kill_at_any_point_of_it_restarts_once(point: int) -> None:
    world = World(lambda _: healthy(), worn=worn_until(99), window=CLOSED, upkeep=DAY)
    record = world.run(fresh(), 100)
    world.window, world.upkeep = "", NIGHT
    world.points, world.kill_at = 0, point
    record = world.run(record, 100)
    assert world.created == [1, 2]
    assert world.most_at_once == 1
    assert record.window_used == OPENED


def test_a_set_clock_makes_nothing_due() -> None:
    """A wall clock that jumps by a month while it has suffered for a minute."""
    world = World(lambda _: healthy(), worn=worn_until(99), upkeep=NIGHT)
    record = world.run(fresh(), 12)
    assert record.wearing is not None
    world.wall += 30 * 86_400.0
    world.run(record, 5)
    assert world.created == [1]


def test_the_remedy_of_wear_is_nothing_that_a_fault_would_be_given() -> None:
    """It is no verdict: an engine that serves stays ready, for clients and for alerts."""
    record = look(WORN, running(healthy(), worn=(MEMORY,)), 10.0)
    assert record.state is State.READY
    assert healthy().remedy is Remedy.NONE
