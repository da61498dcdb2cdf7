"""Are the chosen cards free? Used memory over all of them, and who holds it.

Memory is what `nvidia-smi` shows: the driver's own reserve (some 600 MiB on large cards) is not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent.host.gpu import Gpu, GpuProcess
from agent.host.reading import Known, Reading, Unknown, value_of
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, doubtful, good, unknown
from agent.preflight.who import Holder, holder
from agent.quantity import Bytes

ID = "gpu.busy"
LIMIT = Bytes.mib(2000)
UNSTATED = "the limit that launch scripts use; the recipe states none"
UNSEEN = "no process shows: one that ended and was not reaped, or in another PID namespace; see `fuser -v /dev/nvidia*`"


@dataclass(frozen=True, slots=True)
class Use:
    """Who uses one card besides the deployment itself, and how much of its memory is used by others."""

    gpu: Gpu
    used: Reading[Bytes]
    others: tuple[GpuProcess, ...]


async def look(case: Case) -> Answer:
    limit = case.size_needed(ID) or LIMIT
    stated = {"need": f"under {limit} in use over all chosen cards"}
    if case.need(ID) is None:
        stated["origin"] = UNSTATED
    reading = await case.cards()
    if isinstance(reading, Unknown):
        return unknown(f"no card can be read: {reading.reason}", **stated)
    uses = [use(case, gpu) for gpu in reading.value]
    unread = [f"card {one.gpu.index}: {one.used.reason}" for one in uses if isinstance(one.used, Unknown)]
    if unread or not uses:
        return unknown("; ".join(unread) or "no card to look at", **stated)
    return await answer(case, uses, limit, stated)


async def answer(case: Case, uses: Sequence[Use], limit: Bytes, stated: dict[str, str]) -> Answer:
    total = Bytes(sum(value_of(one.used) or 0 for one in uses))
    pids = dict.fromkeys(process.pid for one in uses for process in one.others)
    holders = [await holder(case.facts, pid) for pid in pids]
    details = {"used": total, "limit": limit, "cards": [shown(one) for one in uses]}
    details["holders"] = [who.to_json() for who in holders]
    if total >= limit:
        return bad(f"{total} in use, {by(uses, holders)}", hint=hint(holders), details=details, **stated)
    computing = {process.pid for one in uses for process in one.others if process.kind == "compute"}
    if computing:
        found = f"{total} in use, {by(uses, holders)}"
        return doubtful(found, hint="it may grow while the engine runs; " + hint(holders), details=details, **stated)
    return good(f"{total} in use", details=details, **stated)


def use(case: Case, gpu: Gpu) -> Use:
    """One card's use, less what the running deployment holds itself."""
    processes = value_of(gpu.processes) or ()
    others = tuple(process for process in processes if process.pid not in case.credit.pids)
    if isinstance(gpu.unified_memory, Known) and gpu.unified_memory.value:
        return Use(gpu, held(gpu, others), others)
    if isinstance(gpu.memory_used, Unknown):
        return Use(gpu, gpu.memory_used, others)
    credit = case.credit.gpu_memory.get(gpu.uuid, Bytes(0))
    return Use(gpu, Known(Bytes(max(0, gpu.memory_used.value - credit)), gpu.memory_used.at), others)


def held(gpu: Gpu, others: tuple[GpuProcess, ...]) -> Reading[Bytes]:
    """Where card and host share their memory, only the processes tell."""
    if isinstance(gpu.processes, Unknown):
        return gpu.processes
    return Known(Bytes(sum(value_of(process.memory) or 0 for process in others)), gpu.processes.at)


def shown(one: Use) -> dict[str, Any]:
    pids = [process.pid for process in one.others]
    return {"index": one.gpu.index, "uuid": one.gpu.uuid, "used": value_of(one.used), "pids": pids}


def by(uses: Sequence[Use], holders: Sequence[Holder]) -> str:
    """Who holds how much, on which cards."""
    if not holders:
        cards = ", ".join(str(one.gpu.index) for one in uses if value_of(one.used))
        return f"on card {cards}, by nobody whom the driver names"
    return "by " + "; ".join(share(uses, who) for who in holders)


def share(uses: Sequence[Use], who: Holder) -> str:
    mine = [(one.gpu, process) for one in uses for process in one.others if process.pid == who.pid]
    total = Bytes(sum(value_of(process.memory) or 0 for _, process in mine))
    cards = ", ".join(str(index) for index in sorted({gpu.index for gpu, _ in mine}))
    amount = f", {total}" if total else ""
    running = f": {who.command}" if who.command else ""
    return f"{who} on card {cards}{amount}{running}"


def hint(holders: Sequence[Holder]) -> str:
    if not holders:
        return UNSEEN
    cures = dict.fromkeys(who.cure for who in holders)
    return "stop what holds them: " + "; ".join(cures)


CHECK = Check(ID, "the chosen cards are free", look, lambda c: c.uses_gpus, True)
