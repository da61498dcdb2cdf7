"""Is the host of the size that the recipe was made on? A nominal size: 5 % tolerated.

What an engine needs is RAM that can be had. An author's figure for the whole host (373 GB in one recipe, called a hard
line there) says on which machine it ran; where the recipe or the site also states how much must be available, that is
what decides, and a smaller host is a warning: a site that lowers `memory_available` for a smaller model has said that
less will do, and would else have to lower a second figure that follows from the first.
"""

from __future__ import annotations

from agent.host.reading import Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, doubtful, good, unknown
from agent.preflight.checks import memory_available
from agent.preflight.nominal import TOLERANCE, at_least
from agent.quantity import Bytes

ID = "memory.total"
HINT = "the author's host has that much; where less will do, set requirements.memory_total in the site's profile"


async def look(case: Case) -> Answer:
    need = case.size_needed(ID) or Bytes(0)
    memory = await case.facts.memory()
    total = memory if isinstance(memory, Unknown) else memory.value.total
    if isinstance(total, Unknown):
        return unknown(f"memory cannot be read: {total.reason}", need=str(need))
    details = {"bytes": total.value, "need": need, "tolerance": TOLERANCE}
    if at_least(total.value, need):
        return good(str(total.value), need=str(need), details=details)
    decided = case.need(memory_available.ID) is not None
    return (doubtful if decided else bad)(str(total.value), need=str(need), hint=HINT, details=details)


CHECK = Check(ID, "RAM in the host", look, lambda c: c.need(ID) is not None, True)
