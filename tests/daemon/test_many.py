"""Many deployments on one host: each has its own loop, and what fails, hangs or restarts is nobody else's business."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.action import commands
from agent.action.record import State
from agent.clock import SystemClock
from agent.plan.model import Plan
from agent.plan.watch import Span
from tests.container.programs import Program
from tests.daemon.engines import Behaviour
from tests.daemon.stage import Stage, plan_of
from tests.e2e import recipes
from tests.e2e.rig import running, wait_for
from tests.lab.children import free_port

MANY = 16


def quick(number: int) -> Plan:
    """One of many: its own name, its own port, a period short enough for a test in real time."""
    plan = plan_of(f"d{number:02}", f"plan-{number:02}", port=9000 + number)
    spans = {"period": 0.1, "suspect": 0.3, "stall": 0.6, "stall_blind": 0.9, "canary_timeout": 0.3}
    watch = plan.watch.with_spans({name: Span(value, "a test") for name, value in spans.items()})
    return replace(plan, watch=replace(watch, backoff=(0.1,)))


async def until(true: Callable[[], bool], what: Callable[[], str], within_s: float = 30.0) -> None:
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, what()
        await asyncio.sleep(0.05)


async def test_sixteen_deployments_side_by_side_with_trouble_among_them(tmp_path: Path) -> None:
    """One hangs in the runtime, one fails for good, one crashes for ever, one stalls once: twelve never notice."""
    stage = Stage(tmp_path, live=True, hangs={"d00"})
    stage.clock = SystemClock()  # type: ignore[assignment]
    stage.world.clock = stage.clock
    stage.world.programs |= {
        "plan-01": Program("error: unrecognized arguments: --no-such-flag\n", 2),
        "plan-02": Program("a sudden end\n", 1),
    }
    stage.behaviours["d03"] = Behaviour(lambda generation: "stalled" if generation == 1 else "ready")
    agent = await stage.boot()
    try:
        for number in range(MANY):
            plan = quick(number)
            await agent.fleet.deploy(plan, commands.Want(plan.recipe.slug, plan.plan_id), "a test")

        def states() -> dict[str, State]:
            return {slug: loop.record.state for slug, loop in agent.fleet.loops.items()}

        sound = [f"d{number:02}" for number in range(4, MANY)]
        await until(lambda: all(states()[slug] is State.READY for slug in sound), lambda: str(states()))
        await until(lambda: states()["d01"] is State.FAILED, lambda: str(states()))
        await until(lambda: states()["d02"] is State.QUARANTINED, lambda: str(states()))
        await until(lambda: stage.runs("d03", generation=2)(), lambda: str(states()))
        assert states()["d00"] is State.STARTING
        assert all(stage.creates(slug) == 1 for slug in sound)
        longest = max(board.tick_s or 0.0 for slug, board in agent.fleet.boards.items() if slug in sound)
        # one that waited for the call that hangs would not end at all; a busy machine alone takes a second or two
        assert longest < 5.0, f"a sound deployment's tick took {longest:.2f} s"
        turned = {slug: agent.fleet.boards[slug].at for slug in sound}
        await until(lambda: all(agent.fleet.boards[slug].at > turned[slug] for slug in sound), lambda: "a loop stands")
    finally:
        await stage.leave()


@pytest.mark.timeout(150)
def test_four_real_engines_and_one_that_fails(tmp_path: Path) -> None:
    """Plain processes: the failing one is named, the others are ready, one of them is restarted for its stall alone."""
    with running(tmp_path) as rig:
        slugs = [f"engine-{number}" for number in range(4)]
        for slug in slugs:
            env = {"SIM_SCALE": "0.1", "SIM_START_S": "20"}
            rig.publish(recipes.recipe(slug, free_port(), env=env), recipes.profile())
        broken = recipes.recipe("broken", free_port(), flags=["--no-such-flag"])
        rig.publish(broken, recipes.profile())
        for slug in (*slugs, "broken"):
            rig.ok("deploy", slug, "--yes", "-q")
        wait_for(lambda: all(rig.status(slug)["state"] == "ready" for slug in slugs), "all to be ready", 60)
        wait_for(lambda: rig.status("broken")["state"] == "failed", "the broken one to be given up", 30)
        status = {one["slug"]: one for one in json.loads(rig.ok("status", "-o", "json").out)}
        assert [status[slug]["generation"] for slug in slugs] == [1, 1, 1, 1]
        assert len({status[slug]["endpoint"] for slug in slugs}) == 4
        rig.ok("restart", slugs[0], "-q")
        wait_for(lambda: rig.status(slugs[0])["generation"] == 2, "the restart", 30)
        assert [rig.status(slug)["generation"] for slug in slugs[1:]] == [1, 1, 1]
