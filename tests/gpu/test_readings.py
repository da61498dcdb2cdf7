"""What the real library answers: idle, at work, and spinning."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import time
from pathlib import Path

from agent.adapters.nvml import NvmlGpus
from agent.clock import SystemClock
from agent.host.gpu import Gpu
from agent.host.reading import Known, Unknown, value_of
from agent.preflight.checks import driver_skew
from agent.preflight.model import Level
from tests.gpu.box import HostEngine, loaded, share, used, watts
from tests.gpu.conftest import Table, first
from tests.preflight.build import FakeFacts, case

GIB = 1 << 30
FIXTURE = "RECIPE_AGENT_GPU_FIXTURE"
"""A file for the readings, in the form of the recorded ones."""
CYCLES = 20


async def test_every_reading_is_a_value_or_says_why_not(card: Gpu, table: Table) -> None:
    table("card", f"{card.name}, driver memory reserve {value_of(card.memory_reserved)}")
    assert card.lost is None
    silent = {name: one.reason for name, one in card.readings().items() if isinstance(one, Unknown)}
    table("readings without a value", ", ".join(silent) or "none")
    assert all(silent.values())
    asked_for = ("memory_total", "memory_used", "compute_capability", "utilization", "power_w", "processes")
    assert not set(asked_for) & set(silent) or value_of(card.unified_memory)


async def test_the_driver_is_one_and_the_same_everywhere(gpus: NvmlGpus, table: Table) -> None:
    facts = FakeFacts(drivers=await gpus.driver())
    answer = await driver_skew.look(case(facts))
    table("driver", f"{value_of(facts.drivers.version)}, CUDA {value_of(facts.drivers.cuda)}: {answer.found}")
    assert answer.level is Level.PASS


async def test_xid_events_are_subscribed_to(card: Gpu, table: Table) -> None:
    table("Xid events", "registered" if value_of(card.xid_events) else str(card.xid_events))
    assert isinstance(card.xid_events, Known) or card.xid_events.unsupported


async def test_a_reading_costs_next_to_nothing(gpus: NvmlGpus, table: Table) -> None:
    await first(gpus)
    times = []
    for _ in range(50):
        began = time.perf_counter()
        await first(gpus)
        times.append((time.perf_counter() - began) * 1000)
    table("one whole reading of all cards", f"{statistics.median(times):.1f} ms, the slowest {max(times):.1f} ms")
    assert statistics.median(times) < 100


async def test_opening_and_closing_leaves_nothing_behind(table: Table) -> None:
    async def once() -> None:
        source = NvmlGpus(SystemClock())
        assert isinstance(await source.read(), Known)
        await source.close()

    await once()
    gc.collect()
    before = resident(), len(os.listdir("/proc/self/fd"))
    for _ in range(CYCLES):
        await once()
    gc.collect()
    grown = resident() - before[0]
    table(f"NVML opened and closed {CYCLES} times", f"{grown / 1e6:+.1f} MB resident, no descriptor more")
    assert grown < 8_000_000
    assert len(os.listdir("/proc/self/fd")) <= before[1]


async def test_idle_work_and_a_spinning_kernel_are_three_things(
    docker: HostEngine, gpus: NvmlGpus, table: Table
) -> None:
    """A spinning kernel has the utilization of work, and little more power than an engine that holds its card."""
    own = docker.boxes["own"]
    seen = {"nothing": await settled(gpus)}
    for what in ("idle", "work", "spin", "poll"):
        with loaded(docker, own, GIB, what):
            seen[what] = await settled(gpus)
    for what, one in seen.items():
        table(f"{what}: utilization, power", f"{share(one):.0%}, {watts(one):.0f} W, {value_of(one.sm_clock_mhz)} MHz")
    assert share(seen["idle"]) < 0.1
    assert min(share(seen[name]) for name in ("work", "spin", "poll")) > 0.9
    idle, work = watts(seen["idle"]), watts(seen["work"])
    assert work > 1.5 * idle
    assert max(watts(seen["spin"]), watts(seen["poll"])) < idle + (work - idle) / 2
    if path := os.environ.get(FIXTURE):
        keep(Path(path), seen, await gpus.driver())


async def settled(gpus: NvmlGpus) -> Gpu:
    """The driver's figures are means over up to a second."""
    await asyncio.sleep(3.0)
    return await first(gpus)


def keep(path: Path, seen: dict[str, Gpu], driver: object) -> None:
    """The readings as a fixture: a card's own number is nobody's business."""
    document = {what: [one.to_json() for one in (card,)] for what, card in seen.items()}
    document["driver"] = driver.to_json()  # type: ignore[attr-defined]
    text = json.dumps(document, indent=1)
    for card in seen.values():
        text = text.replace(card.uuid, "GPU-00000000-0000-0000-0000-000000000000")
    path.write_text(text + "\n")


async def test_memory_comes_back_after_each_of_twenty_containers(
    docker: HostEngine, gpus: NvmlGpus, table: Table
) -> None:
    before, times = used(await first(gpus)), []
    free = available()
    for _ in range(CYCLES):
        with loaded(docker, docker.boxes["own"], 2 * GIB, "idle") as name:
            assert used(await first(gpus)) >= before + 2 * GIB
            began = time.monotonic()
            docker.docker("kill", name)
            while used(await first(gpus)) > before:
                assert time.monotonic() - began < 20
                await asyncio.sleep(0.01)
            times.append(time.monotonic() - began)
    table(
        f"2 GiB back after `docker kill`, {CYCLES} times",
        f"{statistics.median(times):.2f} s, the slowest {max(times):.2f} s; none kept",
    )
    table("host memory after them", f"{(available() - free) / 1e6:+.0f} MB available")
    assert available() > free - GIB


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def available() -> int:
    line = next(one for one in Path("/proc/meminfo").read_text().splitlines() if one.startswith("MemAvailable"))
    return int(line.split()[1]) * 1024
