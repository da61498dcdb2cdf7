"""Are there as many cards as the recipe runs on?"""

from __future__ import annotations

from agent.host.reading import Unknown
from agent.preflight.case import GPU_COUNT, Case
from agent.preflight.check import Answer, Check, bad, good, unknown


async def look(case: Case) -> Answer:
    need = case.need(GPU_COUNT)
    wanted = int(need.need) if need else case.plan.engine.gpus_needed if case.plan.engine else 1
    origin = "" if need else "the launch's parallel sizes"
    reading = await case.cards()
    if isinstance(reading, Unknown):
        return unknown(f"no card can be read: {reading.reason}", need=str(wanted), origin=origin)
    usable = [gpu for gpu in reading.value if gpu.lost is None]
    details = {"found": len(usable), "need": wanted, "uuids": [gpu.uuid for gpu in usable]}
    found = f"{len(usable)} that answer" + (" of those chosen" if case.plan.gpus else "")
    if len(usable) < wanted:
        hint = f"{wanted - len(usable)} more needed: a recipe for fewer cards, or other parallel sizes in the profile"
        return bad(found, need=str(wanted), origin=origin, hint=hint, details=details)
    return good(found, need=str(wanted), origin=origin, details=details)


CHECK = Check(GPU_COUNT, "as many cards as the recipe runs on", look, lambda c: c.uses_gpus, True)
