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


VARIANTS = frozenset({"laptop", "mobile", "max", "d", "ti", "super"})
"""Words that make another card of a name: where one side has it, so must the other."""


def alike(wanted: str, name: str) -> bool:
    """Whether every word of the recipe's card (`cmp-170hx`) stands in the driver's name (`NVIDIA CMP 170HX`).

    As a whole word, since an A100 is no A10; hyphens and spaces within it may differ (`rtx4090`).
    """
    told = [word for word in re.findall(r"[a-z0-9]+", wanted.lower()) if word not in ("nvidia", "geforce")]
    same = set(parts(name)) & VARIANTS == set(parts(wanted)) & VARIANTS
    return same and all(whole(word, name.lower()) for word in told)


def parts(text: str) -> list[str]:
    """Its runs of letters and of digits."""
    return re.findall(r"[a-z]+|[0-9]+", text.lower())


def whole(word: str, name: str) -> bool:
    return re.search(rf"(?<![a-z0-9]){'[^a-z0-9]*'.join(parts(word))}(?![a-z0-9])", name) is not None


CHECK = Check(ID, "cards of the recipe's model", look, lambda c: c.need(ID) is not None, advisory=True)
