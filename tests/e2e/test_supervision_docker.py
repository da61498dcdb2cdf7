"""A running engine is watched, judged and restarted, on a real Engine with real faults."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.e2e import traffic
from tests.e2e.rig import Rig, deployed, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.timeout(90)]
NUMBERS = count(1)


@pytest.fixture
def slug(shared_rig: Rig) -> Iterator[str]:
    """A name for a deployment, which is removed after the test."""
    name = f"life-{next(NUMBERS)}"
    yield name
    shared_rig.ctl("remove", name)


def test_busy_stall_is_suspected_then_found_kept_as_evidence_and_restarted(shared_rig: Rig, slug: str) -> None:
    """busy → suspect → stalled → evidence → stopping → generation 2, with the old log whole and two restarts left."""
    port = deployed(shared_rig, slug)
    with traffic.client(port):
        shared_rig.until(slug, "busy")
        traffic.fault(port, "stall")
        began = time.monotonic()
        shared_rig.until(slug, "stalled", "stopping", within=15)
        print(f"verdict after {time.monotonic() - began:.1f} s of a window of 5 s")
        again = shared_rig.until(slug, "ready", generation=2)
        print(f"ready again after {time.monotonic() - began:.1f} s")
    path = shared_rig.path(slug)
    begin = path.index("busy")
    assert path[begin : begin + 5] == ["busy", "suspect", "stalled", "stopping", "releasing"], path
    assert again["restart_budget"] == 2
    assert again["restarts"] == 1
    evidence_before_stop(shared_rig, slug)
    saved = list((shared_rig.folder / "state" / "logs" / slug).iterdir())
    assert len(saved) == 1
    assert "Application startup complete" in saved[0].read_text()
    assert shared_rig.value("recipe_agent_stalls_total", recipe=slug, kind="busy") == 1
    assert shared_rig.value("recipe_agent_restart_budget_remaining", recipe=slug) == 2


def evidence_before_stop(rig: Rig, slug: str) -> None:
    """The one incident was whole before anything was sent to the container."""
    (incident,) = rig.incidents(slug)
    assert incident["kind"] == "busy"
    assert {"inspect.json", "log.txt", "metrics-1.txt", "plan.json", "window.jsonl"} <= set(incident["evidence"])
    steps = [event["data"]["step"] for event in rig.events(slug) if event["kind"] == "step"]
    assert steps.index("SaveEvidence") < steps.index("Stop") < steps.index("Signal") < steps.index("Remove")
    folder = rig.folder / "state" / "incidents" / incident["id"]
    assert {path.name for path in folder.iterdir()} >= set(incident["evidence"])
