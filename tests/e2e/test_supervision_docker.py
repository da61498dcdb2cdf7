"""A running engine is watched, judged and restarted, on a real Engine with real faults."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from tests.e2e import traffic
from tests.e2e.rig import Rig, deployed, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(150)]
NUMBERS = count(1)


@pytest.fixture
def slug(shared_rig: Rig) -> Iterator[str]:
    """A name for a deployment, which is removed after the test."""
    name = f"life-{next(NUMBERS)}"
    yield name
    shared_rig.ctl("remove", name)


def test_a_busy_stall_is_suspected_found_kept_as_evidence_and_restarted(shared_rig: Rig, slug: str) -> None:
    """busy → suspect → stalled → evidence → stopping → generation 2, with the old log whole and two restarts left."""
    port = deployed(shared_rig, slug)
    with traffic.client(port):
        shared_rig.until(slug, "busy")
        traffic.fault(port, "stall")
        began = time.monotonic()
        shared_rig.until(slug, "stalled", "stopping", within=25)
        print(f"stall → verdict {time.monotonic() - began:.1f} s (window 5 s, canary 2 s)")
        again = shared_rig.until(slug, "ready", generation=2)
        print(f"stall → ready again {time.monotonic() - began:.1f} s")
    path = shared_rig.path(slug)
    begin = path.index("busy")
    assert path[begin : begin + 5] == ["busy", "suspect", "stalled", "stopping", "releasing"]
    assert (again["restarts"], again["restart_budget"]) == (1, 2)
    evidence_came_first(shared_rig, slug)
    (saved,) = (shared_rig.folder / "state" / "logs" / slug).iterdir()
    first, *_, last = saved.read_text().splitlines()
    assert "Application startup complete" in saved.read_text()
    assert first != last
    assert shared_rig.value("recipe_agent_stalls_total", recipe=slug, kind="busy") == 1
    assert shared_rig.value("recipe_agent_suspects_total", recipe=slug, reason="busy") == 1
    assert shared_rig.value("recipe_agent_restarts_total", recipe=slug, reason="busy") == 1
    assert shared_rig.value("recipe_agent_incidents_total", recipe=slug, kind="busy") == 1
    assert shared_rig.value("recipe_agent_restart_budget_remaining", recipe=slug) == 2


def evidence_came_first(rig: Rig, slug: str) -> None:
    """The one incident was whole before anything was sent to the container."""
    (incident,) = rig.incidents(slug)
    assert incident["kind"] == "busy"
    assert {"inspect.json", "log.txt", "metrics-1.txt", "plan.json", "window.jsonl"} <= set(incident["evidence"])
    steps = [event["data"]["step"] for event in rig.events(slug) if event["kind"] == "step"]
    assert steps.index("SaveEvidence") < steps.index("Stop") < steps.index("Signal") < steps.index("Remove")
    folder = rig.folder / "state" / "incidents" / incident["id"]
    assert {path.name for path in folder.iterdir()} >= set(incident["evidence"])


def test_long_prefill_idle_and_eight_answers_on_one_connection_never_fire(shared_rig: Rig) -> None:
    """A 129-second prefill (13 s here, with a window of 5), nothing at all, and `n=8` are no faults."""
    ports = {name: deployed(shared_rig, name, wait=False) for name in ("prefill", "idle", "eight")}
    for name in ports:
        shared_rig.until(name, "ready")
    with ExitStack() as clients:
        clients.enter_context(traffic.client(ports["prefill"], sim_prompt_tokens=520_000))
        clients.enter_context(traffic.client(ports["eight"], n=8))
        seen: dict[str, set[str]] = {name: set() for name in ports}
        end = time.monotonic() + 15
        while time.monotonic() < end:
            for name in ports:
                one = shared_rig.status(name)
                seen[name].add(one["state"])
                assert one["generation"] == 1, one
            time.sleep(0.2)
    # a scrape that this machine was too busy to answer in time is shown, and nothing follows from it
    assert seen["prefill"] <= {"ready", "busy", "unobservable"}
    assert seen["idle"] <= {"ready", "unobservable"}
    # several requests on one connection may look like lost clients: told, and never acted on
    assert seen["eight"] <= {"ready", "busy", "suspect", "unobservable"}
    for name in ports:
        assert not shared_rig.incidents(name)
        shared_rig.ok("remove", name)


@pytest.mark.parametrize(("kind", "states"), [("metrics_404", {"busy"}), ("metrics_hang", {"unobservable"})])
def test_metrics_that_cannot_be_read_are_never_idle(shared_rig: Rig, slug: str, kind: str, states: set[str]) -> None:
    """A failed scrape is blindness: no zero, no idle engine, and no restart of one that serves."""
    port = deployed(shared_rig, slug, {"unobservable": 60})
    with traffic.client(port):
        shared_rig.until(slug, "busy")
        traffic.fault(port, kind)
        shared_rig.until_status(slug, lambda one: "metrics" in one["blind"], f"{kind} to be noticed")
        end = time.monotonic() + 4
        while time.monotonic() < end:
            one = shared_rig.status(slug)
            assert one["state"] in states, one
            assert "nothing runs" not in one["why"]
            assert one["figures"].get("requests_running") != 0
            time.sleep(0.2)
        assert shared_rig.value("recipe_agent_detector_blind", recipe=slug, signal="metrics") == 1
        assert shared_rig.value("recipe_agent_requests_running", recipe=slug) != 0
        traffic.fault(port, "clear")
        shared_rig.until(slug, "busy", generation=1)
    assert not shared_rig.incidents(slug)


def test_a_core_that_hung_while_idle_is_found_by_the_canary(shared_rig: Rig, slug: str) -> None:
    """Gauges at 0, health 200, nobody there: two canaries in a row without a token."""
    port = deployed(shared_rig, slug, {"canary_idle": 3})
    traffic.fault(port, "stall_idle")
    began = time.monotonic()
    shared_rig.until(slug, "stalled", "stopping", within=20)
    print(f"hung while idle → verdict {time.monotonic() - began:.1f} s (asked every 3 s)")
    shared_rig.until(slug, "ready", generation=2)
    (incident,) = shared_rig.incidents(slug)
    assert incident["kind"] == "idle"


def test_requests_whose_client_was_lost_are_a_zombie_and_the_engine_is_restarted(shared_rig: Rig, slug: str) -> None:
    """No connection in looks a window apart, a canary asked, gauges read again, then the restart."""
    port = deployed(shared_rig, slug)
    traffic.fault(port, "zombie_held")
    with traffic.client(port):
        shared_rig.until(slug, "busy")
    began = time.monotonic()
    one = shared_rig.until(slug, "zombie", "stopping", within=20)
    print(f"client lost → verdict {time.monotonic() - began:.1f} s (window 4 s): {one['why']}")
    shared_rig.until(slug, "ready", generation=2)
    (incident,) = shared_rig.incidents(slug)
    assert incident["kind"] == "zombie_held"
    assert "no client connected" in incident["why"]
    assert shared_rig.value("recipe_agent_stalls_total", recipe=slug, kind="zombie_held") == 1


def test_zombies_of_an_engine_that_can_abort_are_aborted_without_a_restart(shared_rig: Rig, slug: str) -> None:
    """In the engine's developer mode the gentler remedy is there, and nobody else is served: generation 1 goes on."""
    port = deployed(shared_rig, slug, VLLM_SERVER_DEV_MODE="1")
    traffic.fault(port, "zombie_burning")
    with traffic.client(port):
        shared_rig.until(slug, "busy")
    shared_rig.until(slug, "zombie")
    one = shared_rig.until(slug, "ready", within=40)
    assert one["generation"] == 1
    assert [incident["kind"] for incident in shared_rig.incidents(slug)] == ["zombie_burning"]


def test_an_exit_with_0_is_dead_and_is_restarted(shared_rig: Rig, slug: str) -> None:
    """vLLM exits 0 when its core dies, so no code is a reason to stay down."""
    port = deployed(shared_rig, slug)
    traffic.fault(port, "exit", "0")
    began = time.monotonic()
    one = shared_rig.until(slug, "ready", "starting", generation=2)
    print(f"exit 0 → started again {time.monotonic() - began:.1f} s")
    assert one["restarts"] == 1
    (incident,) = shared_rig.incidents(slug)
    assert "exit code 0" in incident["why"]
    assert "dead" in shared_rig.path(slug)


def test_a_killed_engine_core_ends_in_a_restart(shared_rig: Rig, slug: str) -> None:
    """The core is killed by its pid; the server says 503, exits 0, and is started again once."""
    deployed(shared_rig, slug)
    os.kill(core_of(shared_rig, slug), signal.SIGKILL)
    began = time.monotonic()
    shared_rig.until(slug, "ready", generation=2)
    print(f"core killed → ready again {time.monotonic() - began:.1f} s")
    assert "dead" in shared_rig.path(slug)
    assert shared_rig.status(slug)["restarts"] == 1
    assert len(shared_rig.incidents(slug)) == 1


def core_of(rig: Rig, slug: str) -> int:
    """The pid of the engine core in this namespace."""
    assert rig.engine is not None
    lines = rig.engine.docker("top", slug, "-eo", "pid,args").splitlines()[1:]
    return next(int(line.split()[0]) for line in lines if "EngineCore" in line)


def test_docker_stop_by_a_person_is_respected(shared_rig: Rig, slug: str) -> None:
    """It looks like a self-exit in `inspect`; the Engine's events tell. `agentctl start` brings it back."""
    deployed(shared_rig, slug)
    assert shared_rig.engine is not None
    shared_rig.engine.docker("stop", "--time", "5", slug)
    one = shared_rig.until(slug, "stopped")
    assert "by a person" in one["why"]
    shared_rig.never(slug, "starting", "dead", "backoff", seconds=3)
    assert len(shared_rig.containers(slug)) == 1
    assert not shared_rig.incidents(slug)
    shared_rig.ok("start", slug)
    one = shared_rig.until(slug, "ready", generation=2)
    assert one["restarts"] == 0
    assert len(shared_rig.containers(slug)) == 1


def test_a_container_that_a_person_removed_is_named_and_started_again(shared_rig: Rig, slug: str) -> None:
    """`docker rm -f` leaves nothing to judge: it is said, and the engine is wanted."""
    deployed(shared_rig, slug)
    assert shared_rig.engine is not None
    shared_rig.engine.docker("rm", "--force", slug)
    shared_rig.until(slug, "ready", generation=2)
    (incident,) = shared_rig.incidents(slug)
    assert "removed it by force" in incident["why"]
    assert "dead" in shared_rig.path(slug)
    wait_for(lambda: len(shared_rig.containers(slug)) == 1, "exactly one container")


def test_the_fourth_restart_never_happens(shared_rig: Rig, slug: str) -> None:
    """A start of 450 s, in scaled time, and a stall in each generation: three restarts whatever the clock, then rest.

    A person's plain start is refused with the reason; with --force the budget is there again.
    """
    env: dict[str, Any] = {"SIM_SCALE": "0.005", "SIM_START_S": "450", "SIM_DECODE_TOK_S": "0.2"}
    port = deployed(shared_rig, slug, {"stall": 2, "suspect": 1, "canary_timeout": 0.8, "term_clients": 0.5}, **env)
    for generation in range(1, 5):
        shared_rig.until(slug, "ready", generation=generation)
        with traffic.client(port):
            shared_rig.until(slug, "busy")
            traffic.fault(port, "stall")
            shared_rig.until(slug, "stopping", "quarantined", within=20, generation=generation)
    one = shared_rig.until(slug, "quarantined")
    assert (one["generation"], one["restarts"], one["restart_budget"]) == (4, 3, 0)
    assert "a person is needed" in one["why"]
    assert len(shared_rig.incidents(slug)) == 4
    refused = shared_rig.ctl("start", slug)
    assert refused.code == 3
    assert "--force" in refused.err
    shared_rig.never(slug, "starting", seconds=2)
    shared_rig.ok("start", slug, "--force")
    again = shared_rig.until(slug, "ready", generation=5)
    assert (again["restarts"], again["restart_budget"]) == (0, 3)
