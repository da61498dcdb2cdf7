"""The cards, looked at from tests that do not run on a loop, and processes on them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from agent.adapters.nvml import NvmlGpus
from agent.clock import SystemClock
from agent.host.gpu import Gpu
from agent.host.reading import Known, value_of
from tests.e2e.rig import Rig
from tests.gpu.box import HostEngine, used

GIB = 1 << 30
Answer = TypeVar("Answer")


def looked(look: Callable[[Gpu], Answer], number: int = 0) -> Answer:
    """One look at a card."""

    async def once() -> Answer:
        source = NvmlGpus(SystemClock())
        try:
            reading = await source.read()
            assert isinstance(reading, Known), reading
            return look(reading.value[number])
        finally:
            await source.close()

    return asyncio.run(once())


def held(number: int = 0) -> int:
    """Bytes in use."""
    return looked(used, number)


def on_the_card(number: int = 0) -> set[int]:
    """Its processes, by their numbers on the host."""
    return looked(lambda gpu: {one.pid for one in value_of(gpu.processes) or ()}, number)


def size_for(fraction: float) -> int:
    """Bytes: this part of the first card."""
    total = looked(lambda gpu: value_of(gpu.memory_total))
    assert total is not None
    return int(total * fraction)


def main_pid(docker: HostEngine, rig: Rig, slug: str) -> int:
    container = rig.containers(slug)[-1].split()[0]
    return int(docker.docker("inspect", "--format", "{{.State.Pid}}", container))


def since(rig: Rig, slug: str, state: str) -> float:
    """When the deployment last came to a state, by its events."""
    times = [one["at"] for one in rig.events(slug) if one["kind"] == "state" and one["data"]["to"] == state]
    return datetime.fromisoformat(times[-1]).timestamp()


def proven_release(rig: Rig, slug: str) -> str:
    """How long it took from the end of the last engine to the proof that what it held is back."""
    return f"{since(rig, slug, 'starting') - since(rig, slug, 'releasing'):.1f} s"
