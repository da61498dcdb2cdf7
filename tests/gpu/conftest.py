"""A card, the host's Docker Engine with `--gpus`, and a table of what was measured."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agent.adapters.nvml import NvmlGpus
from agent.clock import SystemClock
from agent.host.gpu import Gpu
from agent.host.reading import Known
from tests.gpu.box import IMAGE, Box, HostEngine, boxes, host_engine
from tests.lab.fixtures import without
from tests.lab.place import Unavailable

CARDS = sorted(Path("/dev").glob("nvidia[0-9]*"))
RESULTS = "RECIPE_AGENT_GPU_RESULTS"
"""A file to which each measured figure is added, a line of a Markdown table each."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The whole folder needs a card; a host without one is told so once, not by a hundred failures."""
    for item in items:
        if Path(item.path).is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.gpu)
            if not CARDS:
                item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU: there is no /dev/nvidia0"))


class Table:
    """Figures for the run's report."""

    def __call__(self, what: str, figure: str) -> None:
        line = f"| {what} | {figure} |"
        print(line)
        if path := os.environ.get(RESULTS):
            with open(path, "a") as file:
                file.write(line + "\n")


@pytest.fixture(scope="session")
def table() -> Table:
    return Table()


@pytest.fixture
async def gpus() -> AsyncIterator[NvmlGpus]:
    """The real library, through the agent's own owner of it."""
    source = NvmlGpus(SystemClock())
    yield source
    await source.close()


@pytest.fixture
async def card(gpus: NvmlGpus) -> Gpu:
    return await first(gpus)


async def first(gpus: NvmlGpus) -> Gpu:
    """Card 0, read now."""
    reading = await gpus.read()
    assert isinstance(reading, Known), reading
    return reading.value[0]


@pytest.fixture(scope="session")
def docker() -> Iterator[HostEngine]:
    """The host's own Engine, where it hands out GPUs."""
    try:
        engine = host_engine()
    except Unavailable as gap:
        without(gap)
    engine.boxes.update(boxes(engine))
    yield engine
    engine.docker("rmi", IMAGE, check=False)


@pytest.fixture(params=["own", "torch"])
def box(docker: HostEngine, request: pytest.FixtureRequest) -> Box:
    """Without PyTorch, and with it where the environment names a container that has it."""
    if request.param not in docker.boxes:
        pytest.skip("RECIPE_AGENT_GPU_TORCH names no container with PyTorch")
    return docker.boxes[request.param]
