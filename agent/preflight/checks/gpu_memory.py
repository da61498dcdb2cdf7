"""Has every chosen card the memory that the recipe's cards have?"""

from __future__ import annotations

from agent.host.gpu import Gpu
from agent.host.reading import Known, Reading, Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, good, unknown
from agent.preflight.nominal import TOLERANCE, at_least
from agent.quantity import Bytes

ID = "gpu.memory"
HINT = "choose larger cards in the site's `gpus`, or a recipe for cards of this size"


async def look(case: Case) -> Answer:
    need = case.size_needed(ID) or Bytes(0)
    reading = await case.cards()
    if isinstance(reading, Unknown):
        return unknown(f"no card can be read: {reading.reason}")
    sizes = [(gpu, await total(case, gpu)) for gpu in reading.value]
    if not sizes:
        return unknown("no card to look at")
    known = [(gpu, size.value) for gpu, size in sizes if isinstance(size, Known)]
    details = {"bytes": {gpu.uuid: size for gpu, size in known}, "need": need, "tolerance": TOLERANCE}
    each = f"{need} each"
    if small := [f"card {gpu.index} ({gpu.name}): {size}" for gpu, size in known if not at_least(size, need)]:
        return bad(", ".join(small), need=each, hint=HINT, details=details)
    if unread := [f"card {gpu.index}: {size.reason}" for gpu, size in sizes if isinstance(size, Unknown)]:
        return unknown("; ".join(unread), need=each, details=details)
    return good(f"{min(size for _, size in known)} or more each", need=each, details=details)


async def total(case: Case, gpu: Gpu) -> Reading[Bytes]:
    """The card's memory; the chosen slice's on a sliced card, the host's where both share it (GB10)."""
    chosen = [one for one in gpu.slices if one.uuid in case.plan.gpus]
    if chosen and gpu.uuid not in case.plan.gpus:
        return min((one.memory_total for one in chosen), key=lambda r: r.value if isinstance(r, Known) else 0)
    if isinstance(gpu.unified_memory, Known) and gpu.unified_memory.value:
        memory = await case.facts.memory()
        return memory.value.total if isinstance(memory, Known) else memory
    return gpu.memory_total


CHECK = Check(ID, "memory of each card", look, lambda c: c.need(ID) is not None, True)
