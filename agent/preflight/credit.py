"""What a running deployment holds itself, so that what is to replace it is not refused for that.

An estimate: after the stop whatever it held is looked at again. Too small a credit refuses what would fit; so memory
that a driver pinned, which no process and no cgroup shows, counts as its own where nobody else uses the cards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agent.host.gpu import Gpu
from agent.host.reading import Known, value_of
from agent.preflight.case import Credit
from agent.preflight.facts import Facts, MemoryUser
from agent.quantity import Bytes


@dataclass(frozen=True, slots=True)
class Running:
    """A deployment that runs: its container, or the pids of its processes where there is none."""

    container: str
    name: str
    pids: frozenset[int] = frozenset()
    ports: frozenset[int] = frozenset()


async def credit_for(facts: Facts, running: Running) -> Credit:
    """Everything that it holds, by what the host shows."""
    users = value_of(await facts.memory_users()) or ()
    own = [user for user in users if user.container == running.container or user.pid in running.pids]
    pids = running.pids | {user.pid for user in own}
    cards = value_of(await facts.gpus()) or ()
    return Credit(
        container=running.container,
        name=running.name,
        pids=pids,
        gpu_memory={gpu.uuid: held for gpu in cards if (held := gpu_memory(gpu, pids))},
        host_memory=await host_memory(facts, own) + await pinned(facts, cards, pids),
        ports=running.ports,
    )


def gpu_memory(gpu: Gpu, pids: frozenset[int]) -> Bytes:
    """All that is in use where only it uses the card, else what the driver says its processes hold."""
    on_card = value_of(gpu.processes) or ()
    mine = [process for process in on_card if process.pid in pids]
    if mine and len(mine) == len(on_card) and isinstance(gpu.memory_used, Known):
        return gpu.memory_used.value
    return Bytes(sum(value_of(process.memory) or 0 for process in mine))


async def host_memory(facts: Facts, own: list[MemoryUser]) -> Bytes:
    """By its cgroup; by its processes where that cannot be read, memory that they share counted once."""
    if not own:
        return Bytes(0)
    if own[0].container is not None:
        cgroup = await facts.cgroup_memory(own[0].pid)
        if isinstance(cgroup, Known):
            return cgroup.value
    return Bytes(sum(user.resident - user.shared for user in own) + max(user.shared for user in own))


async def pinned(facts: Facts, cards: Iterable[Gpu], pids: frozenset[int]) -> Bytes:
    """What drivers hold, where all processes on all cards are its own."""
    on_cards = {process.pid for gpu in cards for process in value_of(gpu.processes) or ()}
    if not on_cards or not on_cards <= pids:
        return Bytes(0)
    return value_of(await facts.unattributed()) or Bytes(0)
