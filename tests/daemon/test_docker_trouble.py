"""What happens to Docker, and what people do to containers: named, not fatal, never taken for the engine's fault."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.action import commands
from agent.action.record import State
from agent.container.port import ContainerView, LogLine, RunState, StopRequest
from agent.container.trouble import RuntimeRejected, RuntimeSilent, RuntimeUnreachable
from agent.errors import RuntimeTrouble
from agent.metrics import names
from agent.metrics.render import shown
from agent.metrics.snapshot import Snapshot
from tests.daemon.engines import Behaviour
from tests.daemon.stage import Stage, deploy, plan_of

GONE = RuntimeUnreachable(action="list containers", why="nobody listens on /var/run/docker.sock")
HUNG = RuntimeSilent(action="list containers", why="no answer within 30 s")


async def started(folder: Path) -> Stage:
    stage = Stage(folder)
    await deploy(stage, plan_of("demo", "plan-1"))
    await stage.run(stage.runs(generation=1))
    return stage


def only(stage: Stage) -> ContainerView:
    (box,) = stage.world.boxes.values()
    return box.view


async def turns(stage: Stage, count: int) -> None:
    for _ in range(count):
        await stage.turn()


@pytest.mark.parametrize("trouble", [GONE, HUNG], ids=["restarts", "hangs"])
async def test_a_runtime_that_does_not_answer_says_nothing_about_the_engine(
    tmp_path: Path, trouble: RuntimeTrouble
) -> None:
    """Half an hour of it: unobservable with the reason, and afterwards the same container, nothing spent."""
    stage = await started(tmp_path)
    stage.world.trouble = trouble
    await turns(stage, 200)
    assert stage.state() is State.UNOBSERVABLE
    assert trouble.text in stage.told()
    stage.world.trouble = None
    await stage.run(stage.runs(generation=1))
    assert stage.creates() == 1
    assert stage.incidents == []
    await stage.leave()


async def test_a_runtime_that_goes_away_in_a_stop_only_delays_it(tmp_path: Path) -> None:
    stage = await started(tmp_path)
    await stage.ask(lambda f: f.ask("demo", "stop", lambda one: commands.stop(one, None, 0.0), "a test"))
    stage.world.trouble = GONE
    await turns(stage, 30)
    assert stage.state() is State.STOPPING
    stage.world.trouble = None
    await stage.run(lambda: stage.state() is State.STOPPED)
    assert stage.world.boxes == {}
    await stage.leave()


async def test_a_container_removed_by_hand_comes_back(tmp_path: Path) -> None:
    stage = await started(tmp_path)
    stage.world.vanish(only(stage).id)
    await stage.run(stage.runs(generation=2))
    assert any("the container is gone" in event.text for event in stage.disk.events)
    record = stage.record()
    assert record is not None
    assert record.counts["restarts.gone"] == 1
    await stage.leave()


async def test_a_container_stopped_by_hand_stays_down(tmp_path: Path) -> None:
    stage = await started(tmp_path)
    stage.world.person_stops(only(stage).id)
    await stage.run(lambda: stage.state() is State.STOPPED)
    await turns(stage, 20)
    assert stage.creates() == 1
    await stage.leave()


async def test_a_container_restarted_by_hand_is_a_new_start_and_no_fault(tmp_path: Path) -> None:
    """It loads for ten minutes: nobody takes the closed port for a dead engine, and nothing is spent."""
    stage = await started(tmp_path)
    view, now = only(stage), stage.clock.now().wall
    box = stage.world.boxes[view.id]
    box.stops.append(StopRequest(now, "TERM"))
    box.view = replace(view, pid=999, started_at=now + 1.0)
    mode = {"now": "loading"}
    stage.behaviours["demo"] = Behaviour(lambda _: mode["now"])
    await stage.turn()
    assert stage.state() is State.STARTING
    assert any("started again by somebody else" in event.text for event in stage.disk.events)
    for step in range(60):
        stage.world.say(view.id, f"Loading safetensors checkpoint shards: {step}% Completed\n")
        await stage.turn()
        assert stage.state() is State.STARTING, stage.told()
    mode["now"] = "ready"
    await stage.run(stage.runs(generation=1))
    assert stage.creates() == 1
    assert stage.incidents == []
    await stage.leave()


async def test_a_paused_container_is_asleep_and_left_alone(tmp_path: Path) -> None:
    """Paused by hand for an hour, then resumed: ready as before."""
    stage = await started(tmp_path)
    view = only(stage)
    stage.world.boxes[view.id].view = replace(view, state=RunState.PAUSED)
    await turns(stage, 360)
    assert stage.state() is State.ASLEEP
    assert "paused" in stage.told()
    stage.world.boxes[view.id].view = view
    await stage.run(stage.runs(generation=1))
    await turns(stage, 5)
    assert stage.runs(generation=1)()
    assert stage.incidents == []
    await stage.leave()


async def test_a_name_that_is_taken_is_said_and_waited_for(tmp_path: Path) -> None:
    """Somebody's container has the name at the very moment of the start."""
    stage = Stage(tmp_path)
    stage.world.foreign_names["demo"] = "f" * 64
    await deploy(stage, plan_of("demo", "plan-1"))
    await turns(stage, 10)
    assert stage.creates() == 0
    assert any("the name is taken" in step for step in stage.steps)
    del stage.world.foreign_names["demo"]
    await stage.run(stage.runs(generation=1))
    await stage.leave()


async def test_a_removal_that_hangs_is_tried_again_and_then_needs_a_person(tmp_path: Path) -> None:
    """`docker rm` hangs: bounded, and nothing is started beside what is not gone."""
    stage = await started(tmp_path)
    assert stage.agent is not None
    runtime = stage.agent.fleet.loops["demo"]._rooms.runtime

    async def hang(container_id: str) -> None:
        stage.world.calls.append(("hung", container_id))
        raise RuntimeSilent(action="remove demo", why="no answer within 30 s")

    runtime.remove = hang  # type: ignore[method-assign]
    stage.world.exit(only(stage).id, 1)
    await stage.run(lambda: stage.state() is State.QUARANTINED)
    assert "the removal of demo hangs" in stage.told()
    assert sum(call[0] == "hung" for call in stage.world.calls) > 3
    assert stage.creates() == 1
    await stage.leave()


async def test_a_log_that_cannot_be_read_is_unknown_and_no_fault(tmp_path: Path) -> None:
    """Its driver keeps none: the engine serves, what cannot be seen is told, and nothing is done about it."""
    stage = Stage(tmp_path)
    await deploy(stage, plan_of("demo", "plan-1"))
    assert stage.agent is not None
    runtime = stage.agent.fleet.loops["demo"]._rooms.runtime
    no = RuntimeRejected(action="follow a log", why="configured logging driver does not support reading")

    async def follow(container_id: str, since: float | None) -> AsyncIterator[LogLine]:
        raise no
        yield LogLine("never")

    runtime.follow = follow  # type: ignore[method-assign]
    await stage.run(stage.runs(generation=1))
    await turns(stage, 60)
    assert stage.runs(generation=1)()
    board = stage.agent.fleet.boards["demo"]
    assert board.verdict is not None
    assert "log" in board.verdict.blind
    rows = {family.name: rows for family, rows in shown(Snapshot(version="1", boards=(board,)))}
    assert (("demo", "log"), 1.0) in rows[names.BLIND.name]
    assert stage.incidents == []
    await stage.leave()


async def test_a_log_of_a_hundred_and_fifty_thousand_lines_costs_bounded_memory(tmp_path: Path) -> None:
    """What zombies wrote in two hours on one rig; the loop goes on and keeps its end."""
    stage = await started(tmp_path)
    stage.world.say(only(stage).id, "INFO 11-30 request abc: running\n" * 150_000)
    await turns(stage, 3)
    assert stage.agent is not None
    assert stage.runs(generation=1)()
    kept = stage.agent.fleet.loops["demo"]._observer.log_tail
    assert 0 < len(kept) < 10_000
    await stage.leave()
