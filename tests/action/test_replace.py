"""Plans that take over, and what comes back when they fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.action import commands
from agent.action.codec import record_from_json, record_to_json
from agent.action.conflicts import Conflict, no_conflict
from agent.action.model import BringBack, Create, Nothing, RollBack, Yield
from agent.action.preview import preview
from agent.action.record import Deployment, State
from agent.action.seen import Seen
from agent.clock import Instant
from agent.engines.model import EngineKind, EngineLaunch, FailureClass
from agent.plan.model import ContainerPlan, Plan, RecipeRef
from agent.verdict.model import Judged, Remedy, Verdict
from tests.action.world import BOOT, World, fault, healthy, watch


def fresh(**more: object) -> Deployment:
    want = commands.Want("demo", "plan-1", **more)  # type: ignore[arg-type]
    return replace(commands.deploy(None, want, 1000.0), boot_id=BOOT)


def bad_flag(_: int) -> Verdict:
    return fault("exit", Remedy.GIVE_UP, Judged.DEAD, failure=FailureClass.BAD_FLAG)


def test_a_new_plan_that_never_becomes_ready_gives_way_to_the_last_good_one() -> None:
    """The new plan's engine fails for good: the old plan is started again by itself, and says why."""
    world = World(lambda generation: healthy() if generation != 2 else bad_flag(generation))
    record = world.run(fresh(), 8)
    record = world.run(commands.deploy(record, commands.Want("demo", "plan-2"), world.clock), 40)
    assert any(isinstance(step, RollBack) for step in world.steps)
    assert record.plan_id == "plan-1"
    assert record.state is State.READY
    assert record.counts["rollbacks"] == 1
    assert world.created == [1, 2, 3]
    assert world.most_at_once == 1


def test_a_good_plan_is_not_gone_back_from() -> None:
    """A plan that served and then breaks is kept: an older one would not mend that."""
    served: set[int] = set()

    def verdict(generation: int) -> Verdict:
        first = generation not in served
        served.add(generation)
        return healthy() if first else bad_flag(generation)

    world = World(verdict)
    record = world.run(fresh(), 8)
    assert record.state is State.FAILED
    assert not any(isinstance(step, RollBack) for step in world.steps)


def test_going_back_happens_once() -> None:
    """When the old plan fails as well, that is the end: never a loop between two plans."""
    good = {"yes": True}
    world = World(lambda generation: healthy() if good["yes"] else bad_flag(generation))
    record = world.run(fresh(), 8)
    good["yes"] = False
    record = world.run(commands.deploy(record, commands.Want("demo", "plan-2"), world.clock), 80)
    assert record.state is State.FAILED
    assert sum(isinstance(step, RollBack) for step in world.steps) == 1


@pytest.mark.parametrize("point", range(1, 120, 3))
def test_a_kill_on_the_way_back_changes_nothing(point: int) -> None:
    """Die anywhere in an upgrade that fails: one container at a time, and the old plan runs in the end."""
    world = World(lambda generation: healthy() if generation != 2 else bad_flag(generation))
    record = world.run(fresh(), 8)
    world.points, world.kill_at = 0, point
    record = world.run(commands.deploy(record, commands.Want("demo", "plan-2"), world.clock), 60)
    assert (record.plan_id, record.state) == ("plan-1", State.READY)
    assert world.most_at_once == 1


def test_the_replaced_one_goes_last_and_is_waited_for() -> None:
    """Checks and image first, then the other makes room, and nothing is created before it is at rest."""
    world = World(lambda _: healthy(), other="runs")
    world.run(fresh(replaces="old"), 6)
    kinds = [type(step).__name__ for step in world.steps]
    assert kinds[:3] == ["Preflight", "PrepareImage", "Yield"]
    assert "Create" not in kinds
    world.other = "rests"
    record = world.run(world.load(), 6)
    assert record.state is State.READY
    assert record.replaces is None


def test_the_replaced_one_comes_back_when_the_new_one_fails() -> None:
    """The failed one is taken down whole, then the other is started again."""
    world = World(bad_flag, other="rests")
    record = world.run(fresh(replaces="old"), 30)
    assert record.state is State.FAILED
    assert world.containers == {}
    back = [step for step in world.steps if isinstance(step, BringBack)]
    assert [step.slug for step in back] == ["old"]
    assert not any(isinstance(step, Yield) for step in world.steps)
    assert sum(isinstance(step, Create) for step in world.steps) == 1


CLOSED = "the next maintenance window opens 2026-12-06 03:00+00:00"


def test_an_upgrade_that_can_wait_is_prepared_at_once_and_takes_over_in_the_window() -> None:
    """Checks and image now, the old engine serves on and is supervised, and the swap comes when the window opens."""
    looks = {"stalls": False}
    world = World(lambda _: fault() if looks["stalls"] else healthy(), window=CLOSED)
    record = world.run(fresh(), 8)
    want = commands.Want("demo", "plan-2", at_window=True)
    record = world.run(commands.deploy(record, want, world.clock), 20)
    kinds = [type(step).__name__ for step in world.steps[8:] if not isinstance(step, Nothing)]
    assert kinds == ["Preflight", "PrepareImage"]
    assert (record.plan_id, record.state) == ("plan-1", State.READY)
    assert CLOSED in world.steps[-1].why
    world.window = ""
    record = world.run(record, 20)
    assert (record.plan_id, record.state, record.at_window) == ("plan-2", State.READY, False)


def test_a_fault_never_waits_for_a_window() -> None:
    """What is broken is mended at once, and with the plan that is ready."""
    world = World(lambda generation: fault() if generation == 1 else healthy(), window=CLOSED)
    record = world.run(fresh(), 4)
    record = world.run(commands.deploy(record, commands.Want("demo", "plan-2", at_window=True), world.clock), 30)
    assert record.state is State.READY
    assert record.plan_id == "plan-2"
    assert world.created == [1, 2]


def test_a_persons_word_of_now_overrules_the_window() -> None:
    world = World(lambda _: healthy(), window=CLOSED)
    record = world.run(fresh(), 8)
    record = world.run(commands.deploy(record, commands.Want("demo", "plan-2", at_window=True), world.clock), 6)
    record = world.run(commands.deploy(record, commands.Want("demo", "plan-2"), world.clock), 20)
    assert record.plan_id == "plan-2"


def test_a_restart_that_can_wait_comes_once_in_the_window() -> None:
    world = World(lambda _: healthy(), window=CLOSED)
    record = world.run(fresh(), 8)
    record = world.run(commands.restart_later(record), 10)
    assert world.created == [1]
    assert "a restart waits" in world.steps[-1].why
    world.window = ""
    record = world.run(record, 40)
    assert world.created == [1, 2]
    assert record.restarts == ()
    with pytest.raises(commands.NothingToWait):
        commands.restart_later(replace(record, state=State.STOPPED))


def plan(slug: str, *, gpus: tuple[str, ...] = (), name: str | None = None, port: int | None = None) -> Plan:
    body = {"HostConfig": {"PortBindings": {"8000/tcp": [{"HostPort": str(port)}]} if port else {}}}
    return Plan(
        plan_id=slug,
        recipe=RecipeRef(slug, None, None, None, ""),
        runtime="docker",
        engine=EngineLaunch(EngineKind.VLLM, port=8000),
        image=None,
        container=ContainerPlan(name or slug, None, body),
        requirements=(),
        watch=watch(),
        claims=(),
        missing=(),
        unapplied=(),
        warnings=(),
        origins={},
        gpus=gpus,
    )


@pytest.mark.parametrize(
    ("mine", "other", "said"),
    [
        (plan("a", gpus=("GPU-1", "GPU-2")), plan("b", gpus=("GPU-2",)), "the cards GPU-2"),
        (plan("a", name="same"), plan("b", name="same"), "the name same"),
        (plan("a", port=8000), plan("b", port=8000), "the port 8000"),
    ],
)
def test_deployments_share_no_card_name_or_port(mine: Plan, other: Plan, said: str) -> None:
    """The second is refused with what it wants and who has it."""
    with pytest.raises(Conflict) as caught:
        no_conflict(mine, [other])
    assert said in caught.value.text
    assert "--replace b" in caught.value.advice


def test_disjoint_deployments_stand_side_by_side() -> None:
    """Other cards, names and ports are no conflict."""
    no_conflict(plan("a", gpus=("GPU-1",), port=8000), [plan("b", gpus=("GPU-2",), port=8001), plan("c")])


def test_the_plan_to_go_back_to_is_the_last_other_one_that_became_ready() -> None:
    """A plan that never served is no place to go back to, however new it is."""
    world = World(lambda generation: healthy() if generation != 2 else bad_flag(generation))
    record = world.run(fresh(), 8)
    assert record.before is None
    record = world.run(commands.deploy(record, commands.Want("demo", "plan-2"), world.clock), 40)
    assert (record.plan_id, record.before) == ("plan-1", None)
    record = world.run(commands.deploy(record, commands.Want("demo", "plan-3"), world.clock), 40)
    assert (record.plan_id, record.before) == ("plan-3", "plan-1")
    record = world.run(commands.deploy(record, commands.Want("demo", "plan-1"), world.clock), 40)
    assert (record.plan_id, record.before) == ("plan-1", "plan-3")
    assert record_from_json(record_to_json(record)) == record


@pytest.mark.parametrize(
    ("other", "makes_room"),
    [("runs", ["demo-old makes room: checks have passed and the image is there"]), ("rests", [])],
)
def test_a_preview_names_the_deployment_that_makes_room(other: str, makes_room: list[str]) -> None:
    seen = Seen(now=Instant(1000.0, 1000.0), watch=watch(), boot_id=BOOT, other=other)
    said = list(preview(fresh(replaces="demo-old"), seen))
    assert [text for text in said if "makes room" in text] == makes_room
    assert said[-3:] == ["creates generation 1", "starts generation 1", "watches it until it is ready"]
