"""Is the host of the size that the recipe was made on? A nominal size: 5 % tolerated.

What an engine needs is RAM that can be had. Where the recipe states that too, a smaller host is a warning: the check of
available memory decides.
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
