"""The agent is killed before and after every single effect: one container at a time, nothing lost, nothing twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.action import commands
from agent.action.record import State
from tests.daemon.engines import Behaviour
from tests.daemon.stage import Stage, deploy, plan_of

Act = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Life:
    """What is done (after `before`), when it is over, and what must have become of it."""

    act: Act
    generation: int
    before: Act | None = None
    plan: str = "plan-1"
    restarts: int = 0
    incidents: int = 0


async def first(stage: Stage) -> None:
    await deploy(stage, plan_of("demo", "plan-1"))
    await stage.run(stage.runs(generation=1))


async def second_stalls(stage: Stage) -> None:
    stage.behaviours["demo"] = Behaviour(lambda generation: "stalled" if generation == 1 else "ready")
    await stage.run(stage.runs(generation=2))


async def core_exits(stage: Stage) -> None:
    (box,) = stage.world.boxes.values()
    stage.world.exit(box.view.id, 0)
    await stage.run(stage.runs(generation=2))


async def restart(stage: Stage) -> None:
    await stage.ask(lambda fleet: fleet.ask("demo", "restart", lambda one: commands.restart(one, None, 0.0), "a test"))
    await stage.run(lambda: stage.runs()() and (record := stage.record()) is not None and record.generation >= 2)


async def upgrade(stage: Stage) -> None:
    await deploy(stage, plan_of("demo", "plan-2"))
    await stage.run(stage.runs(plan="plan-2"))


async def failing_upgrade(stage: Stage) -> None:
    """The new plan's engine ends at once, for good: the old plan comes back."""
    from tests.container.programs import Program

    stage.world.programs["plan-2"] = Program("error: unrecognized arguments: --no-such-flag\n", 2)
    await deploy(stage, plan_of("demo", "plan-2"))
    await stage.run(stage.runs(generation=3, plan="plan-1"))


async def stop(stage: Stage) -> None:
    await stage.ask(lambda fleet: fleet.ask("demo", "stop", lambda one: commands.stop(one, None, 0.0), "a test"))
    await stage.run(lambda: stage.state() is State.STOPPED and not stage.world.boxes)


LIVES = {
    "deploy": Life(first, 1),
    "stall": Life(second_stalls, 2, first, restarts=1, incidents=1),
    "exit": Life(core_exits, 2, first, restarts=1, incidents=1),
    "restart": Life(restart, 2, first),
    "upgrade": Life(upgrade, 2, first, plan="plan-2"),
    "an upgrade that fails": Life(failing_upgrade, 3, first, incidents=1),
    "stop": Life(stop, 1, first),
}


async def live(folder: Path, life: Life, at: int) -> Stage:
    """One life with a kill at the point; -1 never."""
    stage = Stage(folder)
    try:
        if life.before is not None:
            await life.before(stage)
        stage.trap.points, stage.trap.at = 0, at
        await life.act(stage)
    finally:
        await stage.leave()
    return stage


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", LIVES)
async def test_a_kill_at_every_effect_changes_nothing_in_the_end(name: str, tmp_path: Path) -> None:
    life = LIVES[name]
    points = (await live(tmp_path / "0", life, -1)).trap.points
    assert points > 10
    for at in range(1, points + 1):
        stage = await live(tmp_path / str(at), life, at)
        record = stage.record()
        assert record is not None
        told = f"killed at {at} of {points}: {stage.world.calls}"
        assert record.generation == life.generation, told
        assert stage.creates() == life.generation, told
        assert record.plan_id == life.plan, told
        assert len(record.restarts) == life.restarts, told
        assert life.incidents <= len(stage.incidents) <= life.incidents * 2, told
        logs = sorted(path.name[:17] for path in (stage.folder / "logs").rglob("*.log"))
        removed = life.generation - len(stage.world.boxes)
        assert len(logs) == removed, f"{told}: {logs}"


@pytest.mark.timeout(300)
async def test_a_kill_at_every_effect_of_a_removal_leaves_nothing(tmp_path: Path) -> None:
    async def remove(stage: Stage) -> None:
        await stage.ask(lambda f: f.ask("demo", "remove", lambda one: commands.remove(one, None, 0.0), "a test"))
        await stage.run(lambda: not stage.disk.records and not stage.world.boxes)

    life = Life(remove, 1, first)
    points = (await live(tmp_path / "0", life, -1)).trap.points
    for at in range(1, points + 1):
        stage = await live(tmp_path / str(at), life, at)
        assert stage.disk.records == {}, f"killed at {at}"
        assert stage.world.boxes == {}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("good", [True, False], ids=["the new one runs", "the old one comes back"])
async def test_a_kill_at_every_effect_of_a_replacement_leaves_one_of_the_two(good: bool, tmp_path: Path) -> None:
    from tests.container.programs import Program

    async def replace(stage: Stage) -> None:
        if not good:
            stage.world.programs["new-1"] = Program("error: unrecognized arguments: --no-such-flag\n", 2)
        await deploy(stage, plan_of("new", "new-1", port=8001), replaces="demo")
        if good:
            await stage.run(lambda: stage.runs("new")() and stage.state("demo") is State.STOPPED)
        else:
            await stage.run(lambda: stage.runs("demo", generation=2)() and stage.state("new") is State.FAILED)

    life = Life(replace, 1, first)
    points = (await live(tmp_path / "0", life, -1)).trap.points
    for at in range(1, points + 1):
        stage = await live(tmp_path / str(at), life, at)
        assert stage.most_running == 1, f"killed at {at} of {points}: both ran at once: {stage.world.calls}"
        assert [box.view.slug for box in stage.world.boxes.values()] == ["new" if good else "demo"]
        assert stage.creates("new") == 1
