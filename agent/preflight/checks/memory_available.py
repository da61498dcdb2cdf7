"""Is there enough RAM to be had, without swapping, for what the engine pins?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.host.model import HostMemory
from agent.host.reading import Unknown, value_of
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, good, unknown
from agent.preflight.facts import MemoryUser
from agent.preflight.who import container_name
from agent.quantity import Bytes

ID = "memory.available"
WORTH_NAMING = Bytes.gib(1)
NAMED = 3


async def look(case: Case) -> Answer:
    need = case.size_needed(ID) or Bytes(0)
    memory = await case.facts.memory()
    if isinstance(memory, Unknown):
        return unknown(f"memory cannot be read: {memory.reason}", need=needed(need))
    available = memory.value.available
    if isinstance(available, Unknown):
        return unknown(f"MemAvailable cannot be read: {available.reason}", need=needed(need))
    credit = case.credit.host_memory
    details: dict[str, Any] = {"bytes": available.value, "credit": credit, "need": need}
    found = f"{available.value} available" + (f" and {credit} that the running engine gives back" if credit else "")
    if available.value + credit >= need:
        return good(found, need=needed(need), details=details)
    holders = await largest(case)
    details |= {"memory": memory.value.to_json(), "holders": [as_json(user) for user in holders]}
    hint = await advice(case, memory.value, need, holders)
    return bad(found, need=needed(need), hint=hint, details=details)


def needed(need: Bytes) -> str:
    return f"{need} available"


async def largest(case: Case) -> Sequence[MemoryUser]:
    """Who holds the most, the deployment itself apart."""
    users = await case.facts.memory_users()
    if isinstance(users, Unknown):
        return ()
    others = [user for user in users.value if user.pid not in case.credit.pids]
    return sorted((user for user in others if user.holds >= WORTH_NAMING), key=lambda user: -user.holds)[:NAMED]


async def advice(case: Case, memory: HostMemory, need: Bytes, holders: Sequence[MemoryUser]) -> str:
    lower = "where the recipe needs less, set requirements.memory_available in the site's profile"
    total = value_of(memory.total)
    if total is not None and total < need:
        return f"this host has {total} in all, so stopping things cannot help: take a larger host; {lower}"
    said = [await words(case, user) for user in holders] + await beside_processes(case, memory)
    return "; ".join([*said, "stop what is not needed", lower])


async def beside_processes(case: Case, memory: HostMemory) -> list[str]:
    """What is in use and belongs to no process."""
    said = []
    if hugepages := value_of(memory.hugepages):
        said.append(f"{hugepages} are set aside as huge pages (vm.nr_hugepages)")
    if (locked := value_of(memory.locked)) and locked >= WORTH_NAMING:
        said.append(f"{locked} are locked in all (Mlocked), and neither swap nor caches can give them back")
    if (shared := value_of(memory.shared)) and shared >= WORTH_NAMING:
        said.append(f"{shared} are shared memory or tmpfs (look at /dev/shm)")
    held = value_of(await case.facts.unattributed())
    if held and held >= WORTH_NAMING:
        said.append(f"{held} are held by the kernel or a driver, as memory is that CUDA pins for a process")
    return said


async def words(case: Case, user: MemoryUser) -> str:
    how = f"{user.locked} are locked" if user.locked >= user.resident else f"{user.resident} are held"
    where = await container_name(case.facts, user.container)
    return f"{how} by pid {user.pid} ({user.name})" + (f" in container {where}" if where else "")


def as_json(user: MemoryUser) -> dict[str, Any]:
    return {
        "pid": user.pid,
        "name": user.name,
        "resident": user.resident,
        "locked": user.locked,
        "container_id": user.container,
    }


CHECK = Check(ID, "RAM that can be had", look, lambda c: c.need(ID) is not None, True)
