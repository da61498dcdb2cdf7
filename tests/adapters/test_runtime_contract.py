"""The runtimes keep their contract: the fake, plain processes, a Docker Engine."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.adapters.docker_runtime import DockerRuntime
from agent.adapters.process_runtime import ProcessRuntime
from agent.adapters.process_start import LogRotation
from agent.container.port import ContainerView
from tests.adapters import doors
from tests.adapters.processes import end_all
from tests.container.contract import RuntimeContract
from tests.container.fake import FakeRuntime, FakeWorld
from tests.container.programs import Program
from tests.lab import images
from tests.lab.engine import Engine


class FakeContractWorld:
    """The fake, with its programs known by their last word."""

    def __init__(self) -> None:
        self.inner = FakeWorld()
        self.inner.start_errors["/no/such/program"] = "/no/such/program: no such file or directory"
        self.runtime = FakeRuntime(self.inner)

    def again(self) -> FakeRuntime:
        return FakeRuntime(self.inner)

    def body(self, program: Program) -> dict[str, Any]:
        argv = program.argv()
        self.inner.programs[argv[-1]] = program
        return {"Cmd": argv}

    async def person_stops(self, view: ContainerView) -> None:
        self.inner.person_stops(view.id)

    async def vanish(self, view: ContainerView) -> None:
        self.inner.vanish(view.id)


class TestFake(RuntimeContract):
    """The fake that tests of the upper floors stand on."""

    @pytest.fixture
    async def world(self) -> FakeContractWorld:
        return FakeContractWorld()


class ProcessWorld:
    """Real processes below a folder."""

    def __init__(self, root: Path, door: Path | None = None) -> None:
        self.root = root
        self.door = door
        self.runtime = self.again()

    def again(self) -> ProcessRuntime:
        return ProcessRuntime(self.root, LogRotation(max_bytes=50_000_000, files=4), door=self.door)

    def body(self, program: Program) -> dict[str, Any]:
        return {"Cmd": program.argv()}

    async def person_stops(self, view: ContainerView) -> None:
        """`kill` of the wrapper is this runtime's `docker stop`."""
        word = await self.runtime.inspect(view.id)
        assert word is not None
        os.kill(word["Process"]["Started"]["wrapper"], signal.SIGTERM)

    async def vanish(self, view: ContainerView) -> None:
        end_all(self.root)
        shutil.rmtree(self.root / view.id)


class TestProcess(RuntimeContract):
    """Plain processes, for real."""

    @pytest.fixture
    async def world(self, tmp_path: Path) -> AsyncIterator[ProcessWorld]:
        world = ProcessWorld(tmp_path / "processes")
        yield world
        end_all(world.root)


class TestProcessBehindADoor(RuntimeContract):
    """Plain processes that are nobody's children: another starts them, as systemd does."""

    @pytest.fixture
    async def world(self, tmp_path: Path) -> AsyncIterator[ProcessWorld]:
        with doors.opened(tmp_path) as door:
            world = ProcessWorld(tmp_path / "processes", door)
            yield world
            end_all(world.root)


class DockerWorld:
    """Containers of the lab's Engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.runtime = self.again()

    def again(self) -> DockerRuntime:
        return DockerRuntime(self.engine.docker_host)

    def body(self, program: Program) -> dict[str, Any]:
        return {"Image": "busybox:lab", "Cmd": program.argv()}

    async def person_stops(self, view: ContainerView) -> None:
        await asyncio.to_thread(self.engine.docker, "stop", view.id)

    async def vanish(self, view: ContainerView) -> None:
        await asyncio.to_thread(self.engine.docker, "rm", "--force", view.id)


@pytest.mark.docker
class TestDocker(RuntimeContract):
    """A Docker Engine, for real."""

    @pytest.fixture
    async def world(self, lab_engine: Engine) -> AsyncIterator[DockerWorld]:
        images.busybox(lab_engine, "busybox:lab")
        world = DockerWorld(lab_engine)
        yield world
        await world.runtime.close()
        left = lab_engine.docker("ps", "--all", "--quiet", "--filter", "label=recipe-agent.recipe").split()
        if left:
            lab_engine.docker("rm", "--force", *left)
