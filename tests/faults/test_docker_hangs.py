"""A Docker Engine that does not answer: it says nothing about the engines that it runs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e import recipes, traffic
from tests.e2e.rig import deployed, running, wait_for
from tests.lab import images
from tests.lab.engine import Engine
from tests.lab.procs import stop

ANSWER_S = 3.0


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_docker_engine_that_hangs_costs_no_engine_its_life(own_engine: Engine, tmp_path: Path) -> None:
    """F32: the agent answers, the collector says 0, the deployment is unobservable, and afterwards all is as before."""
    images.simulator(own_engine, recipes.IMAGE)
    with running(tmp_path, own_engine) as rig:
        rig.site["docker"]["timeout_s"] = ANSWER_S
        rig.terminate()
        rig.start()
        port = deployed(rig, "frozen")
        with traffic.client(port):
            before = rig.until("frozen", "busy")
            stop(own_engine.pid)
            try:
                rig.until("frozen", "unobservable", within=20)
                asked = time.monotonic()
                rig.status("frozen")
                assert time.monotonic() - asked < ANSWER_S
                wait_for(
                    lambda: rig.value("recipe_agent_collector_success", collector="docker") == 0, "collector 0", 30
                )
                assert traffic.get(port, "/health")[0] == 200
                rig.never("frozen", "dead", "stalled", "stopping", "zombie", seconds=15)
            finally:
                os.kill(own_engine.pid, signal.SIGCONT)
            after = rig.until("frozen", "busy", within=20)
        assert (after["generation"], after["container"]) == (1, before["container"])
        assert not rig.incidents("frozen")
        wait_for(lambda: rig.value("recipe_agent_collector_success", collector="docker") == 1, "collector 1", 30)
