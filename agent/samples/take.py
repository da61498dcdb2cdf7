"""Take one sample: all sources of one engine, each with its own deadline, none able to fail the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from agent.clock import Clock
from agent.container.port import ContainerView
from agent.engines.dialect import join
from agent.engines.model import EngineLaunch, EngineReading, Pong, Request
from agent.engines.registry import dialect_of
from agent.errors import AgentError
from agent.host.gpu import Gpu, MigInstance
from agent.host.port import GpuSource, HostSource, Processes, Sockets
from agent.host.process import Process
from agent.host.reading import Known, Unknown, value_of
from agent.samples.model import (
    Activity,
    Connections,
    GpuSample,
    Health,
    Miss,
    Missed,
    Sample,
)
from agent.samples.port import Endpoint, Probe

MIG = "MIG-"
"""How the UUID of a slice begins."""
COMPILERS = frozenset({"nvcc", "cicc", "ptxas", "ninja", "cc1plus", "cudafe++", "fatbinary", "hipcc"})


@dataclass(frozen=True, slots=True)
class Sources:
    """Where samples come from; the same for all deployments of a host."""

    probe: Probe
    sockets: Sockets
    processes: Processes
    gpus: GpuSource
    host: HostSource
    clock: Clock


@dataclass(frozen=True, slots=True)
class Ping:
    """Questions that only the scheduler's loop answers, and their reader. Shorter than the period, so that a hung
    engine does not slow down the looking."""

    requests: tuple[Request, ...]
    read: Callable[[int, str, float], Pong]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Subject:
    """The engine that is looked at: how it was launched, where it is, which cards are its own."""

    engine: EngineLaunch | None
    endpoint: Endpoint | None
    uuids: tuple[str, ...]
    read_metrics: Callable[[str], EngineReading]
    scrape_timeout_s: float
    ping: Ping | None = None
    own: int = 0
    """Requests of the agent's own that are under way (a canary, a trial): their connections are no clients."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A sample without what the loop itself knows (log, canary, Xids), and the processes that it saw."""

    sample: Sample
    tree: tuple[Process, ...] = ()


async def take(sources: Sources, subject: Subject, container: ContainerView | Missed) -> Taken:
    """One sample. A container that does not run is looked at no further."""
    if isinstance(container, Missed) or not container.running or container.pid is None:
        why = container if isinstance(container, Missed) else unseen(container)
        kills = await host_oom_kills(sources.host)
        return Taken(Sample(at=sources.clock.now(), container=container, scrape=why, host_oom_kills=kills))
    # connections are counted before the agent's own scrape, so that its own is never among them
    connections, (activity, tree), gpus, oom, host_oom = await asyncio.gather(
        count_connections(sources, subject, container.pid),
        read_activity(sources.processes, container.pid),
        read_gpus(sources.gpus, subject.uuids),
        sources.processes.oom_kills(container.pid),
        host_oom_kills(sources.host),
    )
    scrape = await read_engine(sources.probe, subject)
    health = await read_health(sources.probe, subject)
    pong = await read_ping(sources, subject)
    sample = Sample(
        at=sources.clock.now(),
        container=container,
        scrape=scrape,
        health=health,
        ping=pong,
        connections=connections,
        activity=activity,
        gpus=gpus,
        oom_kills=value_of(oom),
        host_oom_kills=host_oom,
    )
    return Taken(sample, tree)


def unseen(container: ContainerView) -> Missed:
    """Why there is nothing to look at."""
    if container.running and container.hidden:
        return Missed(Miss.NO_RIGHTS, container.hidden)
    return Missed(Miss.GONE, "the container does not run")


async def read_engine(probe: Probe, subject: Subject) -> EngineReading | Missed:
    """The engine's metrics, parsed."""
    engine, endpoint = subject.engine, subject.endpoint
    if engine is None or engine.metrics is None:
        return Missed(Miss.UNSUPPORTED, "this engine exports no metrics")
    if endpoint is None:
        return Missed(Miss.UNSUPPORTED, "no port of the engine can be reached from here: the launch publishes none")
    text = await probe.metrics(endpoint, engine.metrics, subject.scrape_timeout_s)
    if isinstance(text, Missed):
        return text
    try:
        return subject.read_metrics(text)
    except AgentError as error:
        return Missed(Miss.BROKEN, error.text)


async def read_health(probe: Probe, subject: Subject) -> Health | Missed | None:
    """The health endpoint, where asking it costs the engine nothing."""
    engine, endpoint = subject.engine, subject.endpoint
    if engine is None or engine.health is None or endpoint is None or dialect_of(engine.kind).traits.health_costs:
        return None
    return await probe.health(endpoint, engine.health, subject.scrape_timeout_s)


async def read_ping(sources: Sources, subject: Subject) -> Pong | Missed | None:
    """The loop's own answer, where the engine offers such a question and is ready for it."""
    if subject.ping is None or subject.endpoint is None:
        return None
    pongs: list[Pong] = []
    for request in subject.ping.requests:
        answer = await sources.probe.ask(subject.endpoint, request, subject.ping.timeout_s)
        if isinstance(answer, Missed):
            return answer
        pongs.append(subject.ping.read(answer.status, answer.text, sources.clock.now().wall))
    return join(pongs)


async def count_connections(sources: Sources, subject: Subject, pid: int) -> Connections | Missed:
    """Clients on the engine's own port, in its own network namespace.

    Behind a published port every client shows as the same address, so the agent's own are known by their number alone.
    """
    if subject.engine is None or subject.engine.port is None:
        return Missed(Miss.UNSUPPORTED, "the engine's port is not known")
    reading = await sources.sockets.connections(pid, subject.engine.port)
    if isinstance(reading, Unknown):
        return Missed(Miss.NO_RIGHTS, reading.reason)
    return Connections(max(0, reading.value.established - subject.own), reading.value.close_wait)


async def read_activity(processes: Processes, pid: int) -> tuple[Activity | Missed, tuple[Process, ...]]:
    """The container's processes together, and each."""
    reading = await processes.tree(pid)
    if isinstance(reading, Unknown):
        return Missed(Miss.GONE, reading.reason), ()
    return activity_of(reading.value), reading.value


def activity_of(tree: tuple[Process, ...]) -> Activity:
    return Activity(
        count=len(tree),
        cpu_seconds=sum(process.cpu_seconds for process in tree),
        io_bytes=io_bytes_of(tree),
        uninterruptible=tuple(process.pid for process in tree if process.unkillable),
        stopped=tuple(process.pid for process in tree if process.state in ("T", "t")),
        compilers=tuple(sorted({process.name for process in tree} & COMPILERS)),
        own_bytes=own_bytes_of(tree),
    )


def own_bytes_of(tree: tuple[Process, ...]) -> int | None:
    """Of all of them, or unknown: a sum without one of them would look as if it had fallen."""
    known = [process.own_bytes.value for process in tree if isinstance(process.own_bytes, Known)]
    return sum(known) if len(known) == len(tree) and known else None


def io_bytes_of(tree: tuple[Process, ...]) -> float | None:
    """Of those that may be looked into; None where none may."""
    known = [process.io_bytes.value for process in tree if isinstance(process.io_bytes, Known)]
    return float(sum(known)) if known else None


async def host_oom_kills(host: HostSource) -> int | None:
    """Kills for memory on the whole host since boot: all that is left to read once a container has gone."""
    memory = await host.memory()
    return value_of(memory.value.oom_kills) if isinstance(memory, Known) else None


async def read_gpus(source: GpuSource, uuids: tuple[str, ...]) -> tuple[GpuSample, ...] | Missed:
    """The deployment's own cards."""
    if not uuids:
        return Missed(Miss.UNSUPPORTED, "this deployment has no cards of its own")
    reading = await source.read()
    if isinstance(reading, Unknown):
        return Missed(Miss.BROKEN, reading.reason)
    found = {gpu.uuid: gpu_sample(gpu.uuid, gpu) for gpu in reading.value}
    found |= {one.uuid: slice_sample(one, gpu) for gpu in reading.value for one in gpu.slices}
    unknown = any(gpu.lost is None and not isinstance(gpu.mig, Known) for gpu in reading.value)
    return tuple(found.get(uuid) or absent(uuid, unknown) for uuid in uuids)


def gpu_sample(uuid: str, gpu: Gpu) -> GpuSample:
    """One card; one that does not answer is lost."""
    if gpu.lost is not None:
        return GpuSample(uuid, lost=True)
    used, action = gpu.memory_used, gpu.recovery_action
    return GpuSample(
        uuid=uuid,
        utilization=value_of(gpu.utilization),
        power_w=value_of(gpu.power_w),
        memory_used=int(used.value) if isinstance(used, Known) else None,
        temperature_c=value_of(gpu.temperature_c),
        recovery_action=int(action.value) if isinstance(action, Known) else None,
    )


def slice_sample(one: MigInstance, gpu: Gpu) -> GpuSample:
    """A MIG slice: its own memory, its card's health. Load and power are those of all slices of the card together, so
    they say nothing about one."""
    used = int(one.memory_used.value) if isinstance(one.memory_used, Known) else None
    return replace(gpu_sample(one.uuid, gpu), utilization=None, power_w=None, memory_used=used)


def absent(uuid: str, unknown: bool) -> GpuSample:
    """What NVML no longer lists is lost, unless it may be a slice of a card that does not tell its slices now."""
    return GpuSample(uuid, lost=not (unknown and uuid.startswith(MIG)))
