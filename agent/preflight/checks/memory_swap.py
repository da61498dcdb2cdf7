"""Does the host swap? What an engine has pinned cannot be swapped out, and all the rest of it waits for the disk."""

from __future__ import annotations

from agent.host.model import HostMemory
from agent.host.reading import Unknown, value_of
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, doubtful, good, unknown
from agent.preflight.checks import memory_available
from agent.preflight.who import container_name
from agent.quantity import Bytes

ID = "memory.swap"
MUCH = Bytes.gib(4)
"""Pages that were put aside once and never missed are no sign of want."""


async def look(case: Case) -> Answer:
    reading = await case.facts.memory()
    if isinstance(reading, Unknown):
        return unknown(f"memory cannot be read: {reading.reason}")
    memory = reading.value
    total, free = value_of(memory.swap_total), value_of(memory.swap_free)
    if total is None or free is None:
        return unknown("the kernel does not tell its swap")
    if total == 0:
        return good("no swap is set up")
    used = Bytes(total - free)
    details = {"total": total, "used": used}
    if used < MUCH:
        return good(f"{used} of {total} in use", details=details)
    return doubtful(f"{used} of {total} in use", hint=await advice(case, memory), details=details)


async def advice(case: Case, memory: HostMemory) -> str:
    """Who holds the memory that is wanted, and what cannot be given back."""
    said = []
    if locked := value_of(memory.locked):
        said.append(f"{locked} are locked and cannot be swapped, so the rest has to make room")
    if largest := await memory_available.largest(case):
        first = largest[0]
        where = await container_name(case.facts, first.container)
        said.append(f"pid {first.pid} ({first.name})" + (f" in container {where}" if where else "") + " holds the most")
    return "; ".join([*said, "stop what is not needed; `swapoff -a && swapon -a` brings back what was put aside"])


CHECK = Check(ID, "the host does not swap", look, lambda c: c.need(memory_available.ID) is not None, advisory=True)
