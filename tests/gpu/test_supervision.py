"""Engines that hold a real card: deployed, hung, ended, and their memory seen to come back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from agent.adapters.nvml import NvmlGpus
from agent.clock import SystemClock
from agent.host.reading import Known, value_of
from tests.e2e import recipes, traffic
from tests.e2e.rig import Rig, deployed, wait_for
from tests.gpu.box import Box, HostEngine, share, tree, used, watts
from tests.gpu.conftest import Table
from tests.gpu.rigs import as_process, on_card, running

pytestmark = pytest.mark.timeout(240)
GIB = 1 << 30
SLUG = "on-a-card"
SLOW = recipes.profile(release=60, stall=6)


def looked(look: Callable[[NvmlGpus], object]) -> object:
    """One look at the cards, from a test that does not run on a loop."""

    async def once() -> object:
        source = NvmlGpus(SystemClock())
        try:
            reading = await source.read()
            assert isinstance(reading, Known), reading
            return look(reading.value[0])  # type: ignore[arg-type]
        finally:
            await source.close()

    return asyncio.run(once())


def held() -> int:
    found = looked(used)  # type: ignore[arg-type]
    assert isinstance(found, int)
    return found


def on_the_card() -> set[int]:
    found = looked(lambda gpu: {one.pid for one in value_of(gpu.processes) or ()})  # type: ignore[attr-defined]
    assert isinstance(found, set)
    return found


def size_for(fraction: float) -> int:
    total = looked(lambda gpu: value_of(gpu.memory_total))  # type: ignore[attr-defined]
    assert isinstance(total, int)
    return int(total * fraction)


def main_pid(docker: HostEngine, rig: Rig) -> int:
    container = rig.containers(SLUG)[-1].split()[0]
    return int(docker.docker("inspect", "--format", "{{.State.Pid}}", container))


def since(rig: Rig, state: str) -> float:
    """When the deployment last came to a state, by its events."""
    times = [one["at"] for one in rig.events(SLUG) if one["kind"] == "state" and one["data"]["to"] == state]
    return datetime.fromisoformat(times[-1]).timestamp()


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
        at_work = looked(lambda gpu: (share(gpu), watts(gpu)))  # type: ignore[arg-type]
        table(f"{box.busy}: held, at work", f"{(held() - before) / GIB:.1f} GiB, {at_work}")
        with traffic.client(port):
            rig.until(SLUG, "busy", within=20)
            stopped = tree(main_pid(docker, rig))[1:]
            assert set(stopped) & on_the_card(), "the process that has the card is not the engine's"
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            found = rig.until(SLUG, "stalled", "stopping", within=60)
            table(f"{box.busy}: SIGSTOP of all but the server, until found", f"{time.monotonic() - began:.1f} s")
            print(found["why"])
            rig.until(SLUG, "ready", generation=2, within=90)
            table(f"{box.busy}: SIGSTOP until ready again", f"{time.monotonic() - began:.1f} s")
        released = since(rig, "starting") - since(rig, "releasing")
        table(f"{box.busy}: {size / GIB:.0f} GiB proven released in", f"{released:.1f} s")
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
