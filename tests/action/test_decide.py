"""The decision over whole lives: starts, faults, budgets, stops, kills of the agent."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from agent.action import commands
from agent.action.decide import decide
from agent.action.model import Abort, Create, EndOrphans, Nothing, Remove, SaveEvidence, Settle, Signal, Step, Stop
from agent.action.record import Deployment, Desired, Reason, State, Supervision, Takedown
from agent.action.seen import Release, Seen, Survivor
from agent.clock import Instant
from agent.container.port import ContainerView, RunState
from agent.engines.model import FailureClass
from agent.verdict.model import Judged, Remedy, Verdict
from tests.action.world import BOOT, World, fault, healthy, watch


def fresh() -> Deployment:
    return replace(commands.deploy(None, commands.Want("demo", "plan-1"), 1000.0), boot_id=BOOT)


def names(world: World) -> list[str]:
    """The steps that did something."""
    return [type(step).__name__ for step in world.steps if not isinstance(step, Nothing)]


def test_a_start_checks_before_it_touches_anything() -> None:
    """Preflight, image, create, start, in this order, and then only looking."""
    world = World(lambda _: healthy())
    record = world.run(fresh(), 8)
    assert names(world) == ["Preflight", "PrepareImage", "Create", "Start"]
    assert record.state is State.READY


def test_evidence_comes_before_anything_is_stopped() -> None:
    """A stalled engine: evidence, TERM, removal, release, and a new generation."""
    world = World(lambda generation: fault() if generation == 1 else healthy())
    record = world.run(fresh(), 20)
    done = names(world)
    assert done.index("SaveEvidence") < done.index("Stop") < done.index("Signal") < done.index("Remove")
    assert record.generation == 2
    assert record.state is State.READY
    assert record.counts["restarts.busy"] == 1


def test_the_fourth_restart_never_happens() -> None:
    """An engine that always stalls is restarted three times, then a person is needed, and it is left as it is."""
    world = World(lambda _: fault())
    record = world.run(fresh(), 200)
    assert world.created == [1, 2, 3, 4]
    assert record.state is State.QUARANTINED
    assert "3 times" in record.why
    assert next(iter(world.containers.values())).state is RunState.RUNNING


def test_a_start_that_stands_still_twice_is_not_tried_a_third_time() -> None:
    """Whatever the budget: what hangs the load hangs it again. Ready in between, it is a new story."""
    world = World(lambda _: fault("start"))
    record = world.run(fresh(), 200)
    assert world.created == [1, 2]
    assert record.state is State.QUARANTINED
    assert "2 starts in a row" in record.why
    world = World(lambda generation: healthy() if generation == 2 else fault("start"))
    record = world.run(fresh(), 40)
    assert (record.state, record.start_stalls) == (State.READY, 0)


def test_the_first_restart_does_not_wait_and_later_ones_do() -> None:
    """Backoff begins with the second restart of one budget."""
    world = World(lambda _: fault())
    world.run(fresh(), 200)
    waits = [step for step in world.steps if type(step).__name__ == "Wait"]
    assert waits
    first_wait = world.steps.index(waits[0])
    creates = [number for number, step in enumerate(world.steps) if isinstance(step, Create)]
    assert creates[1] < first_wait < creates[2]


def test_proven_health_gives_the_budget_back() -> None:
    """Thirty minutes of readiness, in whatever pieces, and the count begins again."""
    world = World(lambda generation: fault() if generation < 3 else healthy())
    record = world.run(fresh(), 250)
    assert record.generation == 3
    assert record.restarts == ()


def test_a_slow_cycle_spends_the_budget_all_the_same() -> None:
    """Ready for a while in each cycle, never for long enough: the clock alone gives nothing back."""
    looks: Counter[int] = Counter()

    def verdict(generation: int) -> Verdict:
        looks[generation] += 1
        return fault() if looks[generation] > 90 else healthy()

    world = World(verdict)
    record = world.run(fresh(), 900)
    assert record.state is State.QUARANTINED
    assert world.created == [1, 2, 3, 4]


@pytest.mark.parametrize("point", range(1, 90))
def test_a_kill_at_any_point_loses_nothing(point: int) -> None:
    """Die at the given point of a life with a fault in it: one container at a time, no generation twice, no
    restart that was not due, and the same end as without the kill."""
    world = World(lambda generation: fault() if generation == 1 else healthy(), kill_at=point)
    record = world.run(fresh(), 60)
    assert record.state is State.READY
    assert record.generation == 2
    assert len(record.restarts) == 1
    assert world.most_at_once == 1
    assert sorted(set(world.created)) == world.created == [1, 2]


def test_a_stop_by_a_person_is_kept_over_everything() -> None:
    """Asked to stop: TERM, removed, stopped, and nothing starts it again, not even a reboot."""
    world = World(lambda _: healthy())
    record = world.run(fresh(), 8)
    record = world.run(commands.stop(record, None, world.clock), 8)
    assert record.state is State.STOPPED
    world.boot = "boot-2"
    record = world.run(record, 5)
    assert record.state is State.STOPPED
    assert world.created == [1]


def test_a_reboot_starts_what_should_run_and_costs_nothing() -> None:
    """Containers have exited and the boot id is new: started again, no incident, no budget."""
    world = World(lambda _: healthy())
    record = world.run(fresh(), 8)
    world.boot = "boot-2"
    world.containers = {key: replace(one, state=RunState.EXITED) for key, one in world.containers.items()}
    record = world.run(record, 15)
    assert record.state is State.READY
    assert record.generation == 2
    assert record.restarts == ()
    assert "SaveEvidence" not in names(world)


def test_what_ignores_term_is_killed_and_what_ignores_kill_needs_a_person() -> None:
    """The ladder is bounded at each rung and never starts beside what still lives."""
    world = World(lambda _: fault(), obeys_term=False)
    world.run(fresh(), 20)
    signals = [step.name for step in world.steps if isinstance(step, Signal)]
    assert signals[:2] == ["TERM", "KILL"]
    stuck = World(lambda _: fault(), obeys_term=False, obeys_kill=False)
    record = stuck.run(fresh(), 60)
    assert record.state is State.QUARANTINED
    assert "reboot" in record.why
    assert stuck.created == [1]


def test_nothing_starts_onto_what_is_still_held() -> None:
    """GPU memory that does not come back ends in quarantine, with its sentence, and without a second container."""
    held = Release(held=("card 0 still holds 40 GiB (0 B before the start)",))
    world = World(lambda _: fault(), release=held)
    record = world.run(fresh(), 60)
    assert record.state is State.QUARANTINED
    assert "card 0 still holds 40 GiB" in record.why
    assert world.created == [1]


@pytest.mark.parametrize(("remedy", "state"), [(Remedy.GIVE_UP, State.FAILED), (Remedy.QUARANTINE, State.QUARANTINED)])
def test_what_a_restart_cannot_mend_is_not_restarted(remedy: Remedy, state: State) -> None:
    """Config faults fail at their first appearance, broken hosts are quarantined; both keep evidence."""
    world = World(lambda _: fault("start", remedy, Judged.DEAD, failure=FailureClass.BAD_FLAG))
    record = world.run(fresh(), 20)
    assert record.state is state
    assert "SaveEvidence" in names(world)
    assert world.created == [1]


def test_a_taken_port_is_tried_three_times() -> None:
    """Then it is failed, with the way out."""
    world = World(lambda _: fault("port", Remedy.RESTART, Judged.DEAD, failure=FailureClass.PORT), watch=watch())
    record = world.run(fresh(), 100)
    assert record.state is State.FAILED
    assert world.created == [1, 2, 3]
    assert "free the port" in record.why


@pytest.mark.parametrize("mode", [Supervision.OBSERVE, Supervision.PAUSED])
def test_observe_and_pause_never_act(mode: Supervision) -> None:
    """Both judge; observe counts what would have been done, once a fault."""
    world = World(lambda _: fault())
    record = world.run(fresh(), 4)
    record = world.run(commands.supervise(record, mode), 30)
    assert world.created == [1]
    assert "Stop" not in names(world)
    assert record.counts.get("would.busy", 0) == (1 if mode is Supervision.OBSERVE else 0)


def test_an_engine_that_recovers_is_left_alone() -> None:
    """The evidence is kept, the engine moves again before the stop: no restart."""
    looks = {"n": 0}

    def verdict(_: int) -> Verdict:
        looks["n"] += 1
        return fault() if looks["n"] == 3 else healthy()

    world = World(verdict)
    record = world.run(fresh(), 30)
    assert any(isinstance(step, SaveEvidence) for step in world.steps)
    assert not any(isinstance(step, Stop) for step in world.steps)
    assert record.state is State.READY
    assert record.fault is None


def test_zombies_are_aborted_before_anything_is_restarted() -> None:
    """The gentlest remedy first; only when the zombies are still there is the engine restarted."""
    world = World(lambda _: fault("zombie_held", Remedy.ABORT, Judged.ZOMBIE))
    record = world.run(fresh(), 5)
    record, seen = world.seen(record)
    seen = replace(seen, can_abort=("narrow", "everything"), served=0)
    from agent.action.decide import decide
    from agent.action.transition import Outcome, finish

    first = decide(record, seen)
    assert isinstance(first, Abort)
    assert not first.everything
    record = finish(record, first, Outcome(aborted="narrow"), seen)
    assert isinstance(decide(record, seen), Nothing)
    later = replace(seen, now=replace(seen.now, mono=seen.now.mono + 20))
    second = decide(record, later)
    assert isinstance(second, Abort)
    assert second.everything
    record = finish(record, second, Outcome(aborted="everything"), later)
    last = decide(record, replace(later, now=replace(later.now, mono=later.now.mono + 20)))
    assert isinstance(last, Stop)


def test_an_engine_wide_abort_never_cuts_others() -> None:
    """With somebody else served it is not an option."""
    world = World(lambda _: fault("zombie_held", Remedy.ABORT, Judged.ZOMBIE))
    record = world.run(fresh(), 5)
    record, seen = world.seen(record)
    from agent.action.decide import decide

    step = decide(record, replace(seen, can_abort=("everything",), served=2))
    assert not isinstance(step, Abort)


def test_a_new_plan_stops_the_old_engine_only_when_it_is_ready_to_take_over() -> None:
    """Checks and image of the new plan come before the stop of the old one."""
    world = World(lambda _: healthy())
    record = world.run(fresh(), 8)
    before = len(world.steps)
    record = world.run(commands.deploy(record, commands.Want("demo", "plan-2"), world.clock), 15)
    done = [type(step).__name__ for step in world.steps[before:] if not isinstance(step, Nothing)]
    assert done == ["Preflight", "PrepareImage", "Stop", "Signal", "Remove", "Released", "Create", "Start"]
    assert record.plan_id == "plan-2"
    assert record.restarts == ()


def test_force_is_a_persons_word() -> None:
    """A quarantined deployment starts with force alone, and with a fresh budget."""
    world = World(lambda _: fault())
    record = world.run(fresh(), 200)
    with pytest.raises(commands.NeedsForce):
        commands.start(record, False, world.clock)
    world.verdict = lambda _: healthy()
    record = world.run(commands.start(record, True, world.clock), 20)
    assert record.state is State.READY
    assert record.restarts == ()


def test_a_container_that_vanishes_is_a_fault_and_comes_back() -> None:
    """Removed by hand: named, and started anew within the budget."""
    world = World(lambda _: healthy())
    record = world.run(fresh(), 8)
    world.containers.clear()
    record = world.run(record, 15)
    assert record.state is State.READY
    assert record.counts["restarts.gone"] == 1


def test_an_engine_that_ends_of_the_fault_it_had_is_one_incident() -> None:
    """Its core died, which the health path told, and then its server exited: one death, one folder of evidence."""
    world = World(lambda generation: fault("engine_dead", state=Judged.DEAD) if generation == 1 else healthy())
    record = fresh()
    while not any(isinstance(step, SaveEvidence) for step in world.steps):
        record = world.run(record, 1)
    (running,) = world.containers
    world.containers[running] = replace(world.containers[running], state=RunState.EXITED, exit_code=0)
    record = world.run(record, 20)
    assert record.state is State.READY
    assert record.counts["incidents.engine_dead"] == 1
    assert sum(isinstance(step, SaveEvidence) for step in world.steps) == 1
    assert record.counts["restarts.engine_dead"] == 1


def test_what_outlived_its_first_process_is_ended_before_the_removal() -> None:
    """The engine's server has exited and its core lives on: it is ended by pid and start time, and a person is asked
    for where it cannot be."""
    exited = ContainerView("c", "demo", "demo", "plan-1", 1, RunState.EXITED)
    core = Survivor(4242, 77, "S", "VLLM::EngineCore")
    down = Takedown(Reason.FAULT, "exited", begun=1000.0)
    record = replace(fresh(), generation=1, container="c", takedown=down)
    seen = Seen(Instant(1001.0, 1001.0), watch(), BOOT, container=exited, survivors=(core,))
    assert isinstance(decide(record, seen), EndOrphans)
    ended = replace(record, takedown=replace(down, orphans_ended_at=1001.0))
    later = replace(seen, now=Instant(1031.5, 1031.5))
    stuck = decide(ended, later)
    assert isinstance(stuck, Settle)
    assert stuck.state is State.QUARANTINED
    assert isinstance(decide(ended, replace(later, survivors=())), Remove)


def test_removal_forgets() -> None:
    """Remove ends with Forget, with nothing left behind."""
    world = World(lambda _: healthy())
    record = world.run(fresh(), 8)
    record = commands.remove(record, None, world.clock)
    assert record.desired is Desired.REMOVED
    assert record.takedown is not None
    assert record.takedown.reason is Reason.REMOVE
    world.run(record, 4)
    assert names(world)[-1] == "Forget"
    assert world.containers == {}


@pytest.mark.parametrize(
    "jump", [-86_400.0 * 400, -3600.0, 3600.0, 86_400.0 * 400], ids=["-400d", "-1h", "+1h", "+400d"]
)
@pytest.mark.parametrize("at", range(1, 60, 4))
def test_a_wall_clock_that_is_set_fires_nothing_and_holds_nothing_up(jump: float, at: int) -> None:
    """Set it at any tick of a life with an engine that ignores TERM: the same steps as without."""

    def life(jump: float) -> tuple[list[Step], Deployment]:
        world = World(lambda _: fault(), obeys_term=False)
        record = world.run(fresh(), at)
        world.wall += jump
        record = world.run(record, 150)
        return world.steps, record

    steps, record = life(jump)
    expected, undisturbed = life(0.0)
    assert [type(step) for step in steps] == [type(step) for step in expected]
    assert (record.state, record.generation) == (undisturbed.state, undisturbed.generation)


def test_a_reboot_in_the_middle_of_a_stop_goes_on_with_it() -> None:
    """The clock of the boot before means nothing: TERM is sent anew, nobody is killed for a wait that never was."""
    world = World(lambda _: healthy(), obeys_term=False)
    record = world.run(fresh(), 8)
    record = world.run(commands.stop(record, None, world.clock), 2)
    assert record.takedown is not None
    assert record.takedown.term_at is not None
    world.boot, world.clock = "boot-2", 5.0
    record = world.run(record, 1)
    assert isinstance(world.steps[-1], Signal)
    assert world.steps[-1].name == "TERM"
    record = world.run(record, 12)
    assert record.state is State.STOPPED
