"""Full disks, lost state, reboots, set clocks: no second container, no lost deployment, no restart that was not due."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.action import commands
from agent.action.record import State
from agent.action.store import StoreTrouble
from tests.daemon.engines import Behaviour
from tests.daemon.stage import Stage, deploy, plan_of

FULL = StoreTrouble("cannot use the state file: no space left on device")


async def started(folder: Path) -> Stage:
    stage = Stage(folder)
    await deploy(stage, plan_of("demo", "plan-1"))
    await stage.run(stage.runs(generation=1))
    return stage


async def test_a_full_disk_does_not_keep_a_dead_engine_dead(tmp_path: Path) -> None:
    """It is restarted, it is said, and what was not written is written when there is room again."""
    stage = await started(tmp_path)
    stage.disk.broken = FULL
    (box,) = stage.world.boxes.values()
    stage.world.exit(box.view.id, 1)
    await stage.run(stage.runs(generation=2))
    assert any("no space left" in step for step in stage.steps)
    assert (before := stage.record()) is not None
    assert before.generation == 1
    stage.disk.broken = None
    await stage.run(lambda: (record := stage.record()) is not None and record.generation == 2)
    assert (after := stage.record()) is not None
    assert len(after.restarts) == 1
    await stage.leave()


async def test_a_wish_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Who asked is told, and nothing is done that a kill would forget."""
    stage = await started(tmp_path)
    stage.disk.broken = FULL
    with pytest.raises(StoreTrouble):
        await stage.ask(lambda f: f.ask("demo", "stop", lambda one: commands.stop(one, None, 0.0), "a test"))
    stage.disk.broken = None
    for _ in range(5):
        await stage.turn()
    assert stage.runs(generation=1)()
    await stage.leave()


async def test_a_kill_with_a_full_disk_makes_no_second_container(tmp_path: Path) -> None:
    """The labels tell what the state does not."""
    stage = await started(tmp_path)
    stage.disk.broken = FULL
    (box,) = stage.world.boxes.values()
    stage.world.exit(box.view.id, 1)
    await stage.run(stage.runs(generation=2))
    await stage.kill()
    stage.disk.broken = None
    await stage.run(stage.runs(generation=2))
    assert stage.creates() == 2
    await stage.leave()


async def test_deployments_come_back_from_their_containers_when_the_state_is_lost(tmp_path: Path) -> None:
    """Record gone, plan kept: taken up as it runs, said in an event, and watched on."""
    stage = await started(tmp_path)
    await stage.kill()
    stage.disk.records.clear()
    stage.disk.operations.clear()
    stage.disk.rebuilt = "the state file was damaged"
    await stage.run(stage.runs(generation=1))
    assert stage.creates() == 1
    assert any("the state file was damaged" in event.text for event in stage.disk.events)
    assert any("found by its container's labels" in event.text for event in stage.disk.events)
    stage.behaviours["demo"] = Behaviour(lambda generation: "stalled" if generation == 1 else "ready")
    await stage.run(stage.runs(generation=2))
    await stage.leave()


async def test_a_deployment_whose_plan_is_lost_costs_the_others_nothing(tmp_path: Path) -> None:
    stage = await started(tmp_path)
    await deploy(stage, plan_of("other", "other-1", port=8001))
    await stage.run(stage.runs("other"))
    await stage.kill()
    del stage.disk.plans["plan-1"]
    await stage.run(stage.runs("other", generation=1))
    assert any("cannot take up demo" in event.text for event in stage.disk.events)
    assert stage.record("demo") is not None
    assert len(stage.world.boxes) == 2
    await stage.leave()


@pytest.mark.parametrize("jump", [-86_400.0 * 400, 86_400.0 * 400], ids=["back", "forward"])
async def test_a_clock_that_is_set_fires_nothing(tmp_path: Path, jump: float) -> None:
    """While it runs, while it is stopped, while it starts again."""
    stage = await started(tmp_path)
    stage.clock.ahead += jump
    for _ in range(5):
        await stage.turn()
    assert stage.runs(generation=1)()
    assert stage.agent is not None
    assert stage.agent.fleet.turning() is None
    await stage.ask(lambda f: f.ask("demo", "restart", lambda one: commands.restart(one, None, 0.0), "a test"))
    await stage.turn()
    stage.clock.ahead -= jump
    await stage.run(stage.runs(generation=2))
    assert not any(call[0] == "signal" and call[2] == "KILL" for call in stage.world.calls)
    assert stage.creates() == 2
    await stage.leave()


async def test_a_reboot_starts_what_should_run_and_costs_nothing(tmp_path: Path) -> None:
    """Containers have exited, the boot id is new, the monotonic clock begins again."""
    stage = await started(tmp_path)
    await stage.kill()
    for box in stage.world.boxes.values():
        stage.world.exit(box.view.id, 137)
    stage.boot_id, stage.clock.mono, stage.clock.ahead = "boot-2", 20.0, stage.clock.ahead + 2000.0
    await stage.run(stage.runs(generation=2))
    record = stage.record()
    assert record is not None
    assert record.restarts == ()
    assert stage.incidents == []
    assert stage.state() is State.READY
    await stage.leave()
