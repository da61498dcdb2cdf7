"""A container in the host's pid namespace whose server was killed: nothing of it lives on beside the next one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.e2e import recipes
from tests.e2e.rig import Rig, wait_for
from tests.lab import images
from tests.lab.children import free_port
from tests.lab.engine import Engine
from tests.lab.procs import descendants, ended

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]


def test_workers_in_the_hosts_pid_namespace_are_ended_before_the_next_start(lab_engine: Engine, tmp_path: Path) -> None:
    images.simulator(lab_engine, recipes.IMAGE)
    rig = Rig(tmp_path, lab_engine)
    rig.site["policy"] = {"host_pid": True}
    try:
        rig.start()
        document = recipes.recipe("pids", free_port())
        launch = document["config"]["launch"]
        document["config"]["launch"] = [*launch[:3], "--pid", "host", *launch[3:]]
        rig.publish(document, recipes.profile())
        rig.ok("deploy", "pids", "--yes", "-q", "--wait=60")
        server = int(lab_engine.docker("inspect", "--format", "{{.State.Pid}}", "pids"))
        crew = descendants(server)
        assert crew
        os.kill(server, signal.SIGKILL)
        rig.until("pids", "ready", generation=2, within=60)
        wait_for(lambda: all(ended(pid) for pid in crew), "the old workers to be gone")
        assert rig.status("pids")["restarts"] == 1
    finally:
        rig.close()
