"""What happens to Docker, and what people do to containers: named, not fatal, never taken for the engine's fault."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
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


def only(stage: Stage, slug: str = "demo") -> ContainerView:
    (box,) = [box for box in stage.world.boxes.values() if box.view.slug == slug]
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


def hanging(stage: Stage) -> Callable[[], None]:
    """From now on no removal is answered; what it returns heals that."""
    assert stage.agent is not None
    runtime = stage.agent.fleet.loops["demo"]._rooms.runtime
    sound = runtime.remove

    async def hang(container_id: str) -> None:
        stage.world.calls.append(("hung", container_id))
        stage.clock.mono += 27.0
        raise RuntimeSilent(action="remove demo", why="no answer within 30 s")

    def heal() -> None:
        runtime.remove = sound  # type: ignore[method-assign]

    runtime.remove = hang  # type: ignore[method-assign]
    return heal


def hung(stage: Stage) -> int:
    return sum(call[0] == "hung" for call in stage.world.calls)


async def test_a_removal_that_hangs_needs_a_person_and_goes_on_by_itself(tmp_path: Path) -> None:
    """`docker rm` hangs: bounded, named with its time and a way out, nothing started beside it; and once it answers
    again, the new generation comes without anybody's help."""
    stage = await started(tmp_path)
    await deploy(stage, plan_of("other", "other-1", port=8001))
    await stage.run(stage.runs("other"))
    heal = hanging(stage)
    stage.world.exit(only(stage, "demo").id, 1)
    await stage.run(lambda: stage.state() is State.QUARANTINED)
    assert "the removal of demo (docker rm) has not been answered for 1" in stage.told()
    assert "restart Docker or reboot" in stage.told()
    assert 3 < hung(stage) < 12
    before, asked = len(stage.disk.events), hung(stage)
    await turns(stage, 120)
    assert stage.runs("other", generation=1)()
    assert stage.creates() == 1
    assert asked + 2 < hung(stage) < asked + 30, "it is asked for now and then"
    assert len(stage.disk.events) - before < 3 * (hung(stage) - asked) + 3
    heal()
    await stage.run(stage.runs(generation=2))
    assert stage.creates() == 2
    record = stage.record()
    assert record is not None
    assert (len(record.restarts), record.takedown) == (1, None)
    await stage.leave()


async def test_a_stop_over_a_removal_that_hangs_fails_and_is_done_in_the_end(tmp_path: Path) -> None:
    """Who asked is told and does not wait for ever; asked again, it has its time again; and it ends up stopped."""
    stage = await started(tmp_path)
    heal = hanging(stage)
    for _ in range(2):
        await stage.ask(lambda f: f.ask("demo", "stop", lambda one: commands.stop(one, None, 0.0), "a test"))
        await stage.turn()
        assert stage.state() is State.STOPPING
        await stage.run(lambda: stage.state() is State.QUARANTINED)
        assert stage.agent is not None
        (*_, operation) = await stage.agent.store.operations("demo")
        assert operation.state == "failed"
        assert "has not been answered" in (operation.error or {})["message"]
    heal()
    await stage.run(lambda: stage.state() is State.STOPPED)
    assert stage.world.boxes == {}
    await stage.leave()


async def test_a_kill_over_a_removal_that_hangs_begins_nothing_new(tmp_path: Path) -> None:
    """The agent is killed while it is stuck: the next one is stuck over the same container, and goes on as well."""
    stage = await started(tmp_path)
    hanging(stage)
    stage.world.exit(only(stage).id, 1)
    await stage.run(lambda: stage.state() is State.QUARANTINED)
    await stage.kill()
    await stage.boot()
    heal = hanging(stage)
    await turns(stage, 30)
    assert stage.state() is State.QUARANTINED
    assert stage.creates() == 1
    heal()
    await stage.run(stage.runs(generation=2))
    await stage.leave()


async def test_a_kill_that_cannot_be_sent_is_no_process_that_cannot_die(tmp_path: Path) -> None:
    """The Engine refuses it: said with its words, tried again, and once it arrives the new generation comes."""
    stage = await started(tmp_path)
    assert stage.agent is not None
    runtime = stage.agent.fleet.loops["demo"]._rooms.runtime
    sound, tries = runtime.signal, []

    async def refuse(container_id: str, name: str) -> None:
        tries.append(name)
        raise RuntimeTrouble(action=f"send {name}", why="the runtime has no such task")

    runtime.signal = refuse  # type: ignore[method-assign]
    await stage.ask(lambda f: f.ask("demo", "restart", lambda one: commands.restart(one, None, 0.0), "a test"))
    await stage.run(lambda: stage.state() is State.QUARANTINED)
    assert "the runtime has no such task" in stage.told()
    assert "reboot" not in stage.told()
    assert tries.count("KILL") > 2
    before = len(tries)
    await turns(stage, 60)
    assert 2 < len(tries) - before < 10, "now and then"
    runtime.signal = sound  # type: ignore[method-assign]
    await stage.run(stage.runs(generation=2))
    assert stage.creates() == 2
    await stage.leave()


async def test_an_engine_that_hangs_over_one_container_is_told_and_waited_for(tmp_path: Path) -> None:
    """It answers nothing about it in the middle of its end: bounded, told, and taken up where it was."""
    stage = await started(tmp_path)
    stage.world.deliver = lambda *_: None  # type: ignore[method-assign]  # no signal comes through to it
    await stage.ask(lambda f: f.ask("demo", "restart", lambda one: commands.restart(one, None, 0.0), "a test"))
    await stage.run(lambda: any(call[0] == "signal" and call[2] == "KILL" for call in stage.world.calls))
    stage.world.trouble = HUNG
    await stage.run(lambda: stage.state() is State.QUARANTINED, turns=400)
    assert "could not be looked at for 1" in stage.told()
    assert "no answer within 30 s" in stage.told()
    kills = sum(call[0] == "signal" and call[2] == "KILL" for call in stage.world.calls)
    stage.world.trouble = None
    await stage.run(lambda: sum(call[0] == "signal" and call[2] == "KILL" for call in stage.world.calls) > kills)
    assert stage.state() is State.STOPPING, "a signal that may never have come is no proof of a stuck process"
    stage.world.exit(only(stage).id, 137)
    await stage.run(stage.runs(generation=2))
    assert stage.creates() == 2
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
