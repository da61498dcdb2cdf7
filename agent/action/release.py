"""Is what a container held free again? Nothing is started onto what is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agent.action.record import Deployment, Held, Takedown
from agent.action.seen import Release, Survivor
from agent.container.port import ContainerView, Runtime
from agent.host.gpu import Gpu
from agent.host.model import HostMemory
from agent.host.port import GpuSource, HostSource, Processes, Sockets
from agent.host.process import Process
from agent.host.reading import Known, Unknown, value_of
from agent.plan.model import Plan
from agent.preflight.ports import published
from agent.quantity import Bytes

GPU_TOLERANCE = Bytes.mib(256)
"""What a card may hold more than before the start: display servers and other tenants move by less than this."""

HOST_TOLERANCE = Bytes.gib(2)
HOST_SHARE = 20
"""Caches of the kernel that are not counted as available move by less than 2 GiB, or a twentieth of the memory."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Where the proof is looked for."""

    runtime: Runtime
    sockets: Sockets
    processes: Processes
    gpus: GpuSource
    host: HostSource


async def prove(proof: Proof, plan: Plan, record: Deployment) -> Release:
    """Name, ports and cards. What cannot be looked at is said and does not block: it never blocked the first start."""
    held: list[str] = []
    unknown: list[str] = []
    await name_held(proof, plan, held)
    if not without_port(record):
        await ports_held(proof, plan, held, unknown)
    await cards_held(proof, plan, record, held, unknown)
    memory = value_of(await proof.host.memory()) if record.held.host is not None else None
    if memory is None:
        return Release(tuple(held), unknown=tuple(unknown))
    kept = memory_held(memory, record.held, needed(plan))
    return Release((*held, *kept.held), kept.late, (*unknown, *kept.unknown))


def needed(plan: Plan) -> int:
    """The memory that a start wants available, by the plan's own statement; 0 where it states none."""
    found = [int(one.need) for one in plan.requirements if one.id == "memory.available" and isinstance(one.need, Bytes)]
    return max(found, default=0)


def memory_held(now: HostMemory, before: Held, need: int) -> Release:
    """The host's memory against what was available before the start.

    Less is only held against the engine as far as other processes and tmpfs do not explain it. It blocks where a start
    would not find what the plan states; else it is waited for, and told when it does not come back: engines that lose
    a little at every cycle are caught by their trend (`agent.action.leak`).
    """
    available = value_of(now.available)
    if available is None or before.host is None:
        return Release(unknown=("host memory: it does not say what is available",))
    tolerance = max(HOST_TOLERANCE, (value_of(now.total) or 0) // HOST_SHARE)
    short = before.host - available
    if short <= tolerance:
        return Release()
    told = f"host memory: {available} available, {Bytes(before.host)} before the start"
    if short - explained(now, before) <= tolerance:
        return Release(unknown=(f"{told}, which other processes or tmpfs explain",))
    told += ", and no process holds the rest"
    return Release(held=(told,)) if available < need else Release(late=(told,))


def explained(now: HostMemory, before: Held) -> int:
    """What others have taken since: memory of processes, and files in memory."""
    grown = 0
    for reading, was in ((now.anonymous, before.anonymous), (now.shared, before.shared)):
        value = value_of(reading)
        if value is not None and was is not None:
            grown += max(0, value - was)
    return grown


def without_port(record: Deployment) -> bool:
    """It never served, for its port was somebody else's: whoever listens there now is not what is left of it."""
    return record.port_failures > 0 and record.ready_at is None


async def name_held(proof: Proof, plan: Plan, held: list[str]) -> None:
    if plan.container is None:
        return
    holder = await proof.runtime.name_holder(plan.container.name)
    if holder is not None:
        who = holder.id[:12] if isinstance(holder, ContainerView) else holder[:12]
        held.append(f"the name {plan.container.name} is still taken by container {who}")


async def ports_held(proof: Proof, plan: Plan, held: list[str], unknown: list[str]) -> None:
    for port in published(plan):
        listeners = await proof.sockets.listeners(port.number)
        if isinstance(listeners, Unknown):
            unknown.append(f"port {port.number}: {listeners.reason}")
        elif listeners.value:
            pid = listeners.value[0].pid
            who = f"pid {pid.value}" if isinstance(pid, Known) else "a process that cannot be named"
            held.append(f"port {port.number} is still listened on by {who}")


async def cards_held(proof: Proof, plan: Plan, record: Deployment, held: list[str], unknown: list[str]) -> None:
    """Every card back at what it held just before the start."""
    if not plan.gpus:
        return
    reading = await proof.gpus.read()
    if isinstance(reading, Unknown):
        unknown.append(f"GPU memory: {reading.reason}")
        return
    for gpu in reading.value:
        if gpu.uuid in plan.gpus:
            card_held(gpu, record.held.cards.get(gpu.uuid), held, unknown)


def card_held(gpu: Gpu, before: int | None, held: list[str], unknown: list[str]) -> None:
    if gpu.lost is not None:
        held.append(f"card {gpu.index} does not answer: {gpu.lost}")
        return
    if isinstance(gpu.memory_used, Unknown) or before is None:
        why = gpu.memory_used.reason if isinstance(gpu.memory_used, Unknown) else "not measured before the start"
        unknown.append(f"memory of card {gpu.index}: {why}")
        return
    used = gpu.memory_used.value
    if used > before + GPU_TOLERANCE:
        held.append(f"card {gpu.index} still holds {used} ({Bytes(before)} before the start{holders(gpu)})")


def holders(gpu: Gpu) -> str:
    if isinstance(gpu.processes, Unknown) or not gpu.processes.value:
        return ""
    return "; by pid " + ", ".join(str(process.pid) for process in gpu.processes.value)


async def survivors(proof: Proof, down: Takedown) -> tuple[Survivor, ...]:
    """What is left of the container's processes: those seen before, by pid and start time, and any in its cgroup."""
    found: dict[int, Process] = {}
    for pid, start_ticks in down.members:
        reading = await proof.processes.look(pid)
        if isinstance(reading, Known) and reading.value.start_ticks == start_ticks:
            found[pid] = reading.value
    if down.container is not None:
        inside = await proof.processes.in_container(down.container)
        found |= {process.pid: process for process in (inside.value if isinstance(inside, Known) else ())}
    return tuple(survivor(process) for process in found.values() if not process.ended)


def survivor(process: Process) -> Survivor:
    return Survivor(process.pid, process.start_ticks, process.state, " ".join(process.cmdline)[:80] or process.name)


def members(tree: Iterable[Process]) -> tuple[tuple[int, int], ...]:
    """A process tree as the record keeps it."""
    return tuple((process.pid, process.start_ticks) for process in tree)
