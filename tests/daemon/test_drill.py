"""Drills on a real daemon and the simulator's real processes: detected, kept, restarted, ready, with the times."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent.action.record import State, Supervision
from agent.daemon.drill import unfit
from agent.daemon.loop import Loop
from tests.e2e import recipes, traffic
from tests.e2e.rig import PROGRAMS, Rig, running, wait_for
from tests.lab.children import free_port
from tests.lab.procs import state

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with running(tmp_path) as found:
        yield found


def deployed(rig: Rig, slug: str, *, expendable: bool = True, **env: str) -> int:
    port = free_port()
    profile = json.loads(recipes.profile()) | {"expendable": expendable}
    rig.publish(recipes.recipe(slug, port, env=env), json.dumps(profile))
    rig.ok("deploy", slug, "--yes", "-q", "--wait=60")
    return port


def drilled(rig: Rig, kind: str, slug: str) -> dict[str, float]:
    """What happened → seconds after the drill began."""
    told = json.loads(rig.ok("-o", "json", "drill", kind, slug, timeout=100).out)
    print(kind, told["text"], told["timeline"])
    assert told["state"] == "done"
    return {mark["what"]: mark["at"] for mark in told["timeline"]}


def test_a_stalled_core_is_detected_kept_and_restarted(rig: Rig) -> None:
    deployed(rig, "stalls")
    at = drilled(rig, "stall", "stalls")
    assert at["stopped"] < at["detected"] < at["evidence"] < at["restarted"] < at["ready"]
    assert rig.status("stalls")["generation"] == 2
    assert [one["kind"] for one in rig.incidents("stalls")] == ["busy"]


def test_a_killed_core_is_detected_and_restarted(rig: Rig) -> None:
    deployed(rig, "crashes")
    at = drilled(rig, "crash", "crashes")
    assert at["killed"] < at["detected"] <= at["evidence"] < at["restarted"] < at["ready"]


def test_a_client_that_hangs_up_leaves_no_zombie_in_a_sound_engine(rig: Rig) -> None:
    deployed(rig, "sound")
    at = drilled(rig, "zombie", "sound")
    assert at["hung up"] < at["freed"]
    assert rig.status("sound")["generation"] == 1


def test_a_start_that_is_only_slow_is_left_alone(rig: Rig) -> None:
    deployed(rig, "slow")
    at = drilled(rig, "slow-start", "slow")
    assert at["stopped"] < at["resumed"] < at["ready"]
    assert rig.status("slow")["restarts"] == 0
    assert rig.incidents("slow") == []


@contextmanager
def stalling(rig: Rig, slug: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A drill whose core is stopped by now, and that core's pid."""
    port = deployed(rig, slug)
    command = [PROGRAMS / "agentctl", "drill", "stall", slug]
    child = subprocess.Popen(command, env=rig.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        (core,) = traffic.cores(port)
        wait_for(lambda: state(core) == "T", "the core to be stopped")
        yield child, core
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


def test_a_drill_that_is_cancelled_heals_what_it_stopped(rig: Rig) -> None:
    """Ctrl-C: the core goes on, and no client is left behind."""
    with stalling(rig, "cancelled") as (child, core):
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 130
    assert state(core) not in "TX"
    assert rig.status("cancelled")["generation"] == 1


@pytest.mark.parametrize(("wish", "why"), [("stop", "asked to be stopped"), ("remove", "removed")])
def test_a_drill_ends_when_its_engine_is_taken_away(rig: Rig, wish: str, why: str) -> None:
    """Nothing would ever come of it, and no other drill could begin."""
    with stalling(rig, "taken") as (child, _):
        rig.ok(wish, "taken", timeout=60)
        trouble = child.communicate(timeout=30)[1]
    assert child.returncode == 1
    assert why in trouble


def test_only_what_is_marked_as_expendable_is_harmed(rig: Rig) -> None:
    deployed(rig, "precious", expendable=False)
    said = rig.ctl("drill", "crash", "precious")
    assert said.code == 3
    assert "expendable" in said.err
    assert rig.status("precious")["state"] == "ready"


@pytest.mark.parametrize(
    ("differs", "under_way", "advice"),
    [
        ({"expendable": False}, False, "expendable: true"),
        ({}, True, "agentctl events demo -f"),
        ({"supervision": Supervision.PAUSED}, False, "agentctl resume demo"),
        ({"state": State.STARTING}, False, "an engine that serves"),
    ],
)
def test_each_refusal_says_what_to_do_about_it(differs: dict[str, Any], under_way: bool, advice: str) -> None:
    """And none of them anything else."""
    sound = {"expendable": True, "supervision": Supervision.ACTIVE, "state": State.READY}
    found = sound | differs
    record = SimpleNamespace(slug="demo", why="", supervision=found["supervision"], state=found["state"])
    loop = cast("Loop", SimpleNamespace(plan=SimpleNamespace(expendable=found["expendable"]), record=record))
    refusal = unfit(loop, under_way)
    assert refusal is not None
    assert advice in refusal[1]
