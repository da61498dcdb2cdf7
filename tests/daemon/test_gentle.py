"""The gentlest remedy first: abort, look again, and only then restart; what is no fault is named and left alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.action.record import State
from agent.plan.model import Plan
from tests.daemon.engines import Behaviour
from tests.daemon.stage import Stage, deploy, plan_of


def with_dev_mode() -> Plan:
    """An engine whose requests can be aborted."""
    plan = plan_of("demo", "plan-1")
    assert plan.engine is not None
    return replace(plan, engine=replace(plan.engine, dev_mode=True))


async def ready(folder: Path, plan: Plan) -> Stage:
    stage = Stage(folder)
    stage.behaviours["demo"] = Behaviour()
    await deploy(stage, plan)
    await stage.run(stage.runs(generation=1))
    return stage


def aborts(stage: Stage) -> list[str]:
    return [path for path in stage.behaviours["demo"].asked if "abort" in path or "pause?" in path]


@pytest.mark.parametrize("obeys", ["/abort_requests", "/pause?mode=abort&clear_cache=false"])
async def test_a_zombie_that_an_abort_ends_costs_no_restart(tmp_path: Path, obeys: str) -> None:
    """The narrow abort where the engine still knows the request, the engine-wide one where it does not."""
    stage = await ready(tmp_path, with_dev_mode())
    engine = stage.behaviours["demo"]
    engine.mode = lambda _: "ready" if obeys in engine.asked else "zombie"
    await stage.run(lambda: obeys in engine.asked)
    await stage.run(stage.runs(generation=1))
    for _ in range(20):
        await stage.turn()
    assert stage.runs(generation=1)()
    assert aborts(stage) == (["/abort_requests"] if obeys == "/abort_requests" else ["/abort_requests", obeys])
    assert stage.creates() == 1
    assert len(stage.incidents) == 1
    await stage.leave()


async def test_a_zombie_that_no_abort_ends_is_restarted_after_both(tmp_path: Path) -> None:
    stage = await ready(tmp_path, with_dev_mode())
    engine = stage.behaviours["demo"]
    engine.mode = lambda generation: "zombie" if generation == 1 else "ready"
    await stage.run(stage.runs(generation=2))
    assert aborts(stage) == ["/abort_requests", "/pause?mode=abort&clear_cache=false"]
    told = [event.data.get("step") for event in stage.disk.events if event.kind == "step"]
    assert told.index("SaveEvidence") < told.index("Abort") < told.index("Stop")
    await stage.leave()


async def test_an_engine_that_offers_no_abort_is_restarted(tmp_path: Path) -> None:
    """As published: no developer mode, and the recipe's launch must not get one."""
    stage = await ready(tmp_path, plan_of("demo", "plan-1"))
    stage.behaviours["demo"].mode = lambda generation: "zombie" if generation == 1 else "ready"
    await stage.run(stage.runs(generation=2))
    assert aborts(stage) == []
    await stage.leave()


async def test_a_stale_gauge_is_named_and_left_alone(tmp_path: Path) -> None:
    """Frozen at one request after everything was aborted: one canary's step brings it down."""
    stage = await ready(tmp_path, with_dev_mode())
    engine = stage.behaviours["demo"]
    before = len(engine.asked)
    engine.mode = lambda _: "ready" if "/v1/completions" in engine.asked[before:] else "zombie"
    await stage.run(lambda: any("stale" in step for step in stage.steps))
    for _ in range(30):
        await stage.turn()
    assert aborts(stage) == []
    assert stage.creates() == 1
    assert stage.incidents == []
    await stage.leave()


async def test_a_request_that_can_never_be_let_in_is_named_and_left_alone(tmp_path: Path) -> None:
    """One waits, none runs: larger than the KV cache. Canaries are answered, so the engine is sound."""
    stage = await ready(tmp_path, with_dev_mode())
    engine = stage.behaviours["demo"]
    engine.clients, engine.mode = 1, lambda _: "waiting"
    for _ in range(120):
        await stage.turn()
    assert stage.state() in (State.BUSY, State.SUSPECT)
    assert "1 wait" in stage.told()
    assert aborts(stage) == []
    assert stage.creates() == 1
    assert stage.incidents == []
    await stage.leave()


async def test_a_question_in_peace_is_no_event(tmp_path: Path) -> None:
    """Thousands a day of an idle engine with many ranks: what happened to it would be gone from its events in hours."""
    stage = await ready(tmp_path, plan_of("demo", "plan-1"))
    engine = stage.behaviours["demo"]
    for _ in range(200):
        await stage.turn()
    assert engine.asked.count("/v1/completions") >= 2
    assert "AskCanary" not in [event.data.get("step") for event in stage.disk.events]
    engine.mode = lambda generation: "stalled" if generation == 1 else "ready"
    await stage.run(stage.runs(generation=2))
    assert "AskCanary" in [event.data.get("step") for event in stage.disk.events], "one of a suspicion is told"
    await stage.leave()
