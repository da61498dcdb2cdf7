"""Engines that hold a real card: deployed, hung, ended, and their memory seen to come back."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.e2e import recipes, traffic
from tests.e2e.rig import deployed, wait_for
from tests.gpu.box import Box, HostEngine, share, tree, watts
from tests.gpu.cards import GIB, held, looked, main_pid, on_the_card, proven_release, size_for
from tests.gpu.conftest import Table
from tests.gpu.rigs import as_process, on_card, running

pytestmark = pytest.mark.timeout(240)
SLUG = "on-a-card"
SLOW = recipes.profile(release=60, stall=6)


def test_a_hung_engine_is_found_and_its_memory_back_before_the_next_takes_it(
    docker: HostEngine, box: Box, tmp_path: Path, table: Table
) -> None:
    before, size = held(), size_for(0.3)
    with running(tmp_path, docker) as rig:
        document, port = on_card(tmp_path, box, SLUG, size)
        rig.publish(document, SLOW)
        began = time.monotonic()
        rig.ok("deploy", SLUG, "--yes", "-q", "--wait=60")
        table(f"{box.busy}: deployed until ready", f"{time.monotonic() - began:.1f} s")
        wait_for(lambda: held() >= before + size, "the engine to hold its memory", 60)
        at_work = looked(lambda gpu: (share(gpu), watts(gpu)))
        table(f"{box.busy}: held, at work", f"{(held() - before) / GIB:.1f} GiB, {at_work}")
        with traffic.client(port):
            rig.until(SLUG, "busy", within=20)
            stopped = tree(main_pid(docker, rig, SLUG))[1:]
            assert set(stopped) & on_the_card(), "the process that has the card is not the engine's"
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            found = rig.until(SLUG, "stalled", "stopping", within=60)
            table(f"{box.busy}: SIGSTOP of all but the server, until found", f"{time.monotonic() - began:.1f} s")
            print(found["why"])
            rig.until(SLUG, "ready", generation=2, within=90)
            table(f"{box.busy}: SIGSTOP until ready again", f"{time.monotonic() - began:.1f} s")
        table(f"{box.busy}: {size / GIB:.0f} GiB proven released in", proven_release(rig, SLUG))
        (incident,) = rig.incidents(SLUG)
        assert {"host.json", "log.txt", "plan.json"} <= set(incident["evidence"])
        wait_for(lambda: held() >= before + size, "the second generation to hold its memory", 60)
        rig.ok("remove", SLUG)
    wait_for(lambda: held() <= before, "all memory to be back", 30)


def test_what_outlives_its_server_is_ended_before_the_next_start(tmp_path: Path, table: Table) -> None:
    """Plain processes: the server is killed, and what has the card lives on as nobody's child."""
    before, size = held(), size_for(0.2)
    with running(tmp_path, None) as rig:
        as_process(rig, sys.executable, size, "work")
        port = deployed(rig, SLUG, {"release": 60})
        wait_for(lambda: held() >= before + size, "the engine to hold its memory", 60)
        server = traffic.server(port)
        orphan = (on_the_card() & set(tree(server))).pop()
        # what the agent has seen of the engine is what it can end: let it look once more
        time.sleep(2)
        os.kill(server, signal.SIGKILL)
        began = time.monotonic()
        assert Path(f"/proc/{orphan}").exists()
        wait_for(lambda: not Path(f"/proc/{orphan}").exists(), "the orphan to be ended", 60)
        table("an orphan with memory, until ended", f"{time.monotonic() - began:.1f} s")
        rig.until(SLUG, "ready", generation=2, within=90)
        table("server killed until ready again", f"{time.monotonic() - began:.1f} s, port {port} answers")
        rig.ok("remove", SLUG)
    wait_for(lambda: held() <= before, "all memory to be back", 30)
