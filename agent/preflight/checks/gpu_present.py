"""Do the cards that the plan chose answer at all?"""

from __future__ import annotations

from agent.host.gpu import Gpu
from agent.host.reading import Unknown
from agent.preflight.case import Case, uuids
from agent.preflight.check import Answer, Check, bad, good, unknown

DRIVER_HINT = "is the NVIDIA driver installed and loaded? `nvidia-smi -L` must list the cards"


async def look(case: Case) -> Answer:
    reading = await case.facts.gpus()
    if isinstance(reading, Unknown):
        said = f"no card can be read: {reading.reason}"
        return (bad if reading.unsupported else unknown)(said, hint=DRIVER_HINT)
    cards = reading.value
    if not cards:
        return bad("the driver lists no card", hint=DRIVER_HINT)
    absent = [uuid for uuid in case.plan.gpus if not any(uuid in uuids(gpu) for gpu in cards)]
    silent = [gpu for gpu in cards if gpu.lost is not None and (not case.plan.gpus or case.chosen(gpu))]
    details = {"cards": [listed(gpu) for gpu in cards], "absent": absent}
    if absent or silent:
        return bad("; ".join(troubles(absent, silent)), hint=cure(silent), details=details)
    return good(f"{len(cards)} × {names(cards)}", details=details)


def troubles(absent: list[str], silent: list[Gpu]) -> list[str]:
    return [f"the chosen card {uuid} is not there" for uuid in absent] + [
        f"card {gpu.index} ({gpu.pci or 'PCI address unknown'}) does not answer: {gpu.lost}" for gpu in silent
    ]


def cure(silent: list[Gpu]) -> str:
    if silent:
        return (
            "look at the kernel's log for Xid lines of that address; "
            "a card that has fallen off the bus wants a reboot, or a cold start of the host"
        )
    return "name cards that are there in the site's `gpus` (index, UUID or PCI address), or leave it empty for all"


def listed(gpu: Gpu) -> dict[str, object]:
    return {"index": gpu.index, "uuid": gpu.uuid, "pci": gpu.pci, "name": gpu.name, "lost": gpu.lost}


def names(cards: tuple[Gpu, ...]) -> str:
    return ", ".join(sorted({gpu.name or "unnamed card" for gpu in cards}))


CHECK = Check("gpu.present", "the driver answers and shows the chosen cards", look, lambda c: c.uses_gpus, True)
