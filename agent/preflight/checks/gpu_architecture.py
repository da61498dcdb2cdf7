"""Do the cards run the code that the recipe was built for (`sm_80`)?"""

from __future__ import annotations

import re

from agent.host.gpu import Gpu
from agent.host.known_cards import capability_by_name
from agent.host.reading import Known, Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, good, unknown

ID = "gpu.architecture"
HINT = "kernels built for another architecture end in `no kernel image is available`: take a build for these cards"


async def look(case: Case) -> Answer:
    need = case.need(ID)
    reading = await case.cards()
    if isinstance(reading, Unknown):
        return unknown(f"no card can be read: {reading.reason}")
    if not reading.value or need is None:
        return unknown("no card to look at")
    found = {gpu.uuid: capability(gpu) for gpu in reading.value}
    words = ", ".join(sorted({value or "unknown" for value in found.values()}))
    other = [gpu for gpu in reading.value if (sm := found[gpu.uuid]) and not runs(sm, str(need.need), gpu)]
    if other:
        return bad(words, hint=HINT, details={"cards": found})
    if None in found.values():
        return unknown(words, details={"cards": found})
    return good(words, details={"cards": found})


def capability(gpu: Gpu) -> str | None:
    """By the driver's word; by the product's name where this driver never says it; None where neither tells."""
    if isinstance(gpu.compute_capability, Known):
        return gpu.compute_capability.value.sm
    named = capability_by_name(gpu.name) if gpu.compute_capability.unsupported else None
    return named.sm if named is not None else None


def runs(sm: str, wanted: str, gpu: Gpu) -> bool:
    """Whether a card of capability `sm` is what the recipe names.

    `wanted` lists what it may be: capabilities (`sm_80`, `8.0`, `8.0+PTX`) or generations (`ampere`). Device code runs
    on later minor versions of the same major one (CUDA's binary compatibility), with PTX on anything later.
    """
    family = gpu.architecture.value if isinstance(gpu.architecture, Known) else ""
    return any(fits(sm, word, family) for word in re.split(r"[\s,;|/]+", wanted.lower()) if word)


def fits(sm: str, word: str, family: str) -> bool:
    have = number(sm)
    want = number(word)
    if want is None or have is None:
        return word == family
    if word.endswith("+ptx"):
        return have >= want
    return have[0] == want[0] and have[1] >= want[1]


def number(word: str) -> tuple[int, int] | None:
    """`sm_80`, `sm80`, `sm_120a`, `8.0`, `8.0+ptx` as (major, minor)."""
    if dotted := re.fullmatch(r"(\d+)\.(\d)[a-z]?(?:\+ptx)?", word):
        return int(dotted[1]), int(dotted[2])
    if joined := re.fullmatch(r"(?:sm_?|compute_?)?(\d+)(\d)[a-z]?(?:\+ptx)?", word):
        return int(joined[1]), int(joined[2])
    return None


CHECK = Check(ID, "compute capability of the cards", look, lambda c: c.need(ID) is not None, True)
