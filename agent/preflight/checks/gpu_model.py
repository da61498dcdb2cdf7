"""Are the cards of the recipe's kind by name? An unlike name is a warning: capability, memory and count decide."""

from __future__ import annotations

import re

from agent.host.reading import Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, doubtful, good, unknown

ID = "gpu.model"


async def look(case: Case) -> Answer:
    need = case.need(ID)
    wanted = str(need.need) if need else ""
    reading = await case.cards()
    if isinstance(reading, Unknown):
        return unknown(f"no card can be read: {reading.reason}")
    seen = sorted({gpu.name for gpu in reading.value if gpu.name})
    if not seen:
        return unknown("no card tells its name")
    details = {"names": seen}
    unlike = [name for name in seen if not alike(wanted, name)]
    if unlike:
        hint = "figures were measured on other cards: memory and architecture decide whether it runs"
        return doubtful(", ".join(seen), hint=hint, details=details)
    return good(", ".join(seen), details=details)


def alike(wanted: str, name: str) -> bool:
    """Whether every word of the recipe's card (`cmp-170hx`) stands in the driver's name (`NVIDIA CMP 170HX`)."""
    squeezed = re.sub(r"[^a-z0-9]", "", name.lower())
    words = re.findall(r"[a-z0-9]+", wanted.lower())
    return all(word in squeezed for word in words if word not in ("nvidia", "geforce"))


CHECK = Check(ID, "cards of the recipe's model", look, lambda c: c.need(ID) is not None, advisory=True)
