"""Never started into a broken host, never beside what an engine left, never more often than the host bears."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.action import commands
from agent.action.record import State
from agent.daemon.wishes import BrokenHost
from tests.daemon.engines import Behaviour
from tests.daemon.stage import Stage, deploy, plan_of

SKEW = "the kernel runs driver 610.57.04 and the library on disk is 610.60: no engine starts before a reboot"


async def test_a_broken_host_is_told_while_the_engine_still_runs_and_blocks_the_next_start(tmp_path: Path) -> None:
    """Ready with a warning; when it ends it is not started again, and says why."""
    stage = Stage(tmp_path)
    await deploy(stage, plan_of("demo", "plan-1"))
    await stage.run(stage.runs(generation=1))
    stage.trouble = SKEW
    await stage.run(lambda: SKEW in stage.told())
    assert stage.state() is State.READY
    (box,) = stage.world.boxes.values()
    stage.world.exit(box.view.id, 1)
    await stage.run(lambda: stage.state() is State.QUARANTINED)
    assert SKEW in stage.told()
    assert stage.creates() == 1
    await stage.leave()


async def test_nothing_is_created_on_a_broken_host(tmp_path: Path) -> None:
    stage = Stage(tmp_path, trouble=SKEW)
    await deploy(stage, plan_of("demo", "plan-1"))
    await stage.run(lambda: stage.state() is State.QUARANTINED)
    assert "agentctl start --force demo" in stage.told()
    assert stage.creates() == 0
    await stage.leave()


async def test_only_the_segments_that_the_engine_made_are_removed(tmp_path: Path) -> None:
    """What was there before its start stays, and so does what others have mapped."""
    stage = Stage(tmp_path)
    stage.shm.there = {("theirs", 1): 4711}
    stage.held = lambda: _held(stage)
    await deploy(stage, plan_of("demo", "plan-1"))
    await stage.run(stage.runs(generation=1))
    (box,) = stage.world.boxes.values()
    stage.shm.there |= {("psm_ours", 2): box.view.pid, ("strangers", 3): 4711}
    stage.clock.mono += 60.0
    await stage.turn()
    await stage.turn()
    stage.world.exit(box.view.id, 137)
    await stage.run(stage.runs(generation=2))
    assert set(stage.shm.there) == {("theirs", 1), ("strangers", 3)}
    assert any("psm_ours" in event.text for event in stage.disk.events)
    await stage.leave()


def _held(stage: Stage):  # type: ignore[no-untyped-def]
    from agent.action.record import Held

    return Held(files=tuple(inode for _, inode in stage.shm.there))


async def test_all_deployments_together_are_restarted_only_so_often(tmp_path: Path) -> None:
    """Three engines fail at once on a host that allows two restarts an hour: the third waits and says so."""
    stage = Stage(tmp_path, host_restarts=2)
    slugs = ["a", "b", "c"]
    for number, slug in enumerate(slugs):
        await deploy(stage, plan_of(slug, f"plan-{slug}", port=8000 + number))
        await stage.run(stage.runs(slug))
    for slug in slugs:
        stage.behaviours[slug] = Behaviour(lambda generation: "stalled" if generation == 1 else "ready")
    await stage.run(lambda: sum(stage.creates(slug) for slug in slugs) == 5)
    for _ in range(20):
        await stage.turn()
    assert sum(stage.creates(slug) for slug in slugs) == 5
    assert any("together were restarted too often" in step for step in stage.steps)
    stage.clock.mono += 3600.0
    await stage.run(lambda: all(stage.creates(slug) == 2 for slug in slugs))
    await stage.leave()


async def test_what_runs_is_not_taken_down_where_nothing_can_be_started(tmp_path: Path) -> None:
    """An upgrade waits and says why, a restart that a person asks for is refused; both go on once it is mended."""
    stage = Stage(tmp_path)
    await deploy(stage, plan_of("demo", "plan-1"))
    await stage.run(stage.runs(generation=1))
    stage.trouble = SKEW
    with pytest.raises(BrokenHost, match="no engine starts before a reboot"):
        await stage.ask(lambda f: f.ask("demo", "restart", lambda one: commands.restart(one, None, 0.0), "a test"))
    await deploy(stage, plan_of("demo", "plan-2"))
    for _ in range(10):
        await stage.turn()
    assert stage.creates() == 1
    assert any("the new plan waits" in step and SKEW in step for step in stage.steps)
    stage.trouble = ""
    await stage.run(stage.runs(plan="plan-2"))
    await stage.leave()
