"""A restart that can wait, on real processes: an engine that leaks is restarted in the next maintenance window."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e import traffic
from tests.e2e.rig import Rig, deployed, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(150)]


def test_an_engine_that_leaks_serves_on_until_the_window_opens(tmp_path: Path) -> None:
    """Named and left serving by day; when the window opens: evidence, a bounded drain, one restart, no budget spent.

    Windows open at full minutes.
    """
    rig = Rig(tmp_path)
    rig.site["maintenance"] = {
        "windows": ["* * * * *"], "length_s": 12, "settled_s": 2, "memory_growth": 20_000_000, "memory_span_s": 1,
        "drain_s": 3,
    }  # fmt: skip
    try:
        rig.start()
        port = deployed(rig, "leaks")
        deployed(rig, "sound")
        while time.time() % 60 > 30:  # by day, with time enough to leak before the next window
            time.sleep(0.2)
        time.sleep(max(0.0, 13 - time.time() % 60))
        began = time.monotonic()
        traffic.fault(port, "leak", "40")
        with traffic.client(port):
            wait_for(lambda: rig.status("leaks")["restart_waits"], "the restart to be due", within=40)
            waits = rig.status("leaks")
            print(f"due after {time.monotonic() - began:.1f} s: {waits['step']}")
            assert waits["restart_waits"]["reason"] == "memory"
            assert "so a restart waits: the next maintenance window opens" in waits["step"]
            assert (waits["state"], waits["generation"]) == ("busy", 1)
            assert rig.value("recipe_agent_restart_waits", recipe="leaks", reason="memory") == 1
            assert "restart waits" in rig.ok("status", "leaks").out
            assert [event["data"] for event in rig.events("leaks") if event["kind"] == "wear"] == [{"reason": "memory"}]
            rig.until("leaks", "stopping", within=60)
            assert time.time() % 60 < 12, "the window was not open"
            wait_for(lambda: "for 1 client connection" in rig.status("leaks")["step"], "the drain to say for how many")
            again = rig.until("leaks", "ready", within=40, generation=2)
        assert (again["restarts"], again["restart_budget"], again["restart_waits"]) == (0, 3, None)
        steps = [event["data"]["step"] for event in rig.events("leaks") if event["kind"] == "step"]
        assert steps.index("SaveEvidence") < steps.index("Stop") < steps.index("Signal") < steps.index("Remove")
        (incident,) = rig.incidents("leaks")
        assert incident["kind"] == "memory"
        assert "more than when it had warmed up" in incident["why"]
        assert rig.value("recipe_agent_restarts_total", recipe="leaks", reason="memory") == 1
        assert rig.value("recipe_agent_restart_waits", recipe="leaks", reason="memory") == 0
        assert rig.status("sound")["generation"] == 1
    finally:
        rig.close()
