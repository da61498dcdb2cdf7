"""The facts of this host for one run of checks: each thing that all checks share is read once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from agent.adapters.preflight_facts_files import DiskFiles
from agent.adapters.preflight_facts_links import LinkFile
from agent.adapters.preflight_facts_proc import HostTables
from agent.adapters.preflight_facts_runtime import RuntimeQuestions
from agent.adapters.preflight_facts_trial import Trials
from agent.clock import Clock
from agent.container.port import Runtime
from agent.host.gpu import Gpu
from agent.host.links import Links
from agent.host.model import DiskSpace, Driver, HostMemory
from agent.host.port import GpuSource, HostSource, Processes, Sockets
from agent.host.process import Holders, Listener, Process
from agent.host.reading import Known, Reading, Unknown
from agent.preflight.facts import Boot, ContainerEngine, Image, LockLimit, MemoryUser, Neighbour, PathFact, Toolkit
from agent.preflight.trial import Ran, Trial
from agent.quantity import Bytes

T = TypeVar("T")


class Once(Generic[T]):
    """A question that is asked once; the first asker's deadline does not cut the answer off for the others."""

    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self._ask = ask
        self._answer: asyncio.Future[T] | None = None

    async def __call__(self) -> T:
        if self._answer is None:
            self._answer = asyncio.ensure_future(self._ask())
        return await asyncio.shield(self._answer)

    async def end(self) -> None:
        """Leaves no task behind."""
        if self._answer is not None:
            self._answer.cancel()
            await asyncio.gather(self._answer, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class HostPorts:
    """Everything that facts are gathered from. `runtime` None: no container engine is set up, `why_none` says why."""

    clock: Clock
    gpus: GpuSource
    host: HostSource
    processes: Processes
    sockets: Sockets
    runtime: Runtime | None
    why_none: str = "no container engine is set up"
    elsewhere: bool = False
    """The container engine is on another host, and so none that the agent can watch."""
    docker_socket: str | None = None
    """Path of the container engine's socket, by which its process is told from others of that name."""
    trials: Trials | None = None
    """Where programs may be tried out; None: nowhere."""
    links: Path | None = None
    """The file of what the cards' links have been seen to do."""


class GatheredFacts:
    """A `Facts`. Make one for a run, and `close` it after."""

    def __init__(self, ports: HostPorts) -> None:
        self._ports = ports
        self._files = DiskFiles(ports.clock)
        self._tables = HostTables(ports.clock, docker_socket=ports.docker_socket)
        self._runtime = RuntimeQuestions(ports.runtime, ports.clock) if ports.runtime else None
        self.gpus: Once[Reading[tuple[Gpu, ...]]] = Once(ports.gpus.read)
        self.driver: Once[Driver] = Once(ports.gpus.driver)
        self.memory: Once[Reading[HostMemory]] = Once(ports.host.memory)
        self.memory_users: Once[Reading[tuple[MemoryUser, ...]]] = Once(self._tables.memory_users)
        self.unattributed: Once[Reading[Bytes]] = Once(self._tables.unattributed)
        self.gpu_holders: Once[Reading[Holders]] = Once(ports.processes.gpu_holders)
        self.container_engine: Once[Reading[ContainerEngine]] = Once(self._engine)
        self.neighbours: Once[Reading[tuple[Neighbour, ...]]] = Once(self._neighbours)
        self.toolkit: Once[Reading[Toolkit]] = Once(self._tables.toolkit)
        self.boot: Once[Reading[Boot]] = Once(self._tables.boot)

    async def cgroup_memory(self, pid: int) -> Reading[Bytes]:
        return await self._tables.cgroup_memory(pid)

    async def lock_limit(self, in_container: bool) -> Reading[LockLimit]:
        return await self._tables.lock_limit(in_container)

    async def process(self, pid: int) -> Reading[Process]:
        return await self._ports.processes.look(pid)

    async def listeners(self, port: int) -> Reading[tuple[Listener, ...]]:
        return await self._ports.sockets.listeners(port)

    async def disk(self, path: str) -> Reading[DiskSpace]:
        return await self._ports.host.disk(path)

    async def path(self, path: str) -> Reading[PathFact]:
        return await self._files.path(path)

    async def folder(self, path: str) -> Reading[tuple[PathFact, ...]]:
        return await self._files.folder(path)

    async def start_of(self, path: str, length: int, offset: int = 0) -> Reading[bytes]:
        return await self._files.start_of(path, length, offset)

    async def sha256(self, path: str) -> Reading[str]:
        return await self._files.sha256(path)

    async def links(self) -> Reading[Links]:
        if self._ports.links is None:
            return Unknown("no state folder is set up")
        return await LinkFile(self._ports.links, self._ports.clock).read()

    async def name_holder(self, name: str) -> Reading[Neighbour | None]:
        return await self._runtime.named(name) if self._runtime else self._none()

    async def image(self, reference: str) -> Reading[Image | None]:
        return await self._runtime.image(reference) if self._runtime else self._none()

    async def try_out(self, trial: Trial) -> Reading[Ran]:
        if self._ports.trials is None:
            return Unknown("nothing may be tried out here")
        if trial.image is not None and self._runtime is None:
            return self._none()
        return await self._ports.trials.run(trial)

    async def close(self) -> None:
        """Ends what is still being asked."""
        await asyncio.gather(*(one.end() for one in vars(self).values() if isinstance(one, Once)))

    async def _engine(self) -> Reading[ContainerEngine]:
        engine = await self._runtime.engine() if self._runtime else self._none()
        if isinstance(engine, Unknown):
            return self._with_passed_over(engine)
        return Known(replace(engine.value, passed_over=passed_over(self._ports.docker_socket)), engine.at)

    async def _neighbours(self) -> Reading[tuple[Neighbour, ...]]:
        """Containers are found by their processes: the runtime's own list holds ours alone."""
        if self._runtime is None:
            return self._none()
        users = await self.memory_users()
        if isinstance(users, Unknown):
            return users
        return await self._runtime.these({user.container for user in users.value if user.container})

    def _none(self) -> Unknown:
        return Unknown(self._ports.why_none, unsupported=self._ports.elsewhere)

    def _with_passed_over(self, engine: Unknown) -> Unknown:
        """Whoever set DOCKER_HOST looks for the fault there first."""
        named = passed_over(self._ports.docker_socket)
        said = f"{engine.reason}; DOCKER_HOST ({named}) does not count, docker.host of agent.yaml does"
        return replace(engine, reason=said) if named else engine


def passed_over(used: str | None) -> str:
    """DOCKER_HOST where it names another engine than the one in use: people expect it to count."""
    named = os.environ.get("DOCKER_HOST", "")
    return "" if not named or named.removeprefix("unix://") == used else named
