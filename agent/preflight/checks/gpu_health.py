"""Can each chosen card be used as it is? MIG, compute mode, memory errors, and what the driver itself asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.host.gpu import ComputeMode, Gpu, RecoveryAction
from agent.host.reading import Unknown, value_of
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, doubtful, good, unknown
from agent.preflight.model import Level

ID = "gpu.health"
Trouble = tuple[Level, str, str]
"""How bad, what was found, how to mend it."""

REBOOTS = (RecoveryAction.NODE_REBOOT, RecoveryAction.SYSTEM_REBOOT)


async def look(case: Case) -> Answer:
    reading = await case.cards()
    if isinstance(reading, Unknown):
        return unknown(f"no card can be read: {reading.reason}")
    cards = [gpu for gpu in reading.value if gpu.lost is None]
    if not cards:
        return unknown("no card that answers")
    troubles = [one for gpu in cards for one in troubles_of(gpu, case)] + list(odd_links(cards))
    details = {"cards": [gpu.to_json() for gpu in cards]}
    if not troubles:
        return good(f"{len(cards)} without complaint", details=details)
    worst = max(troubles, key=lambda one: one[0] is Level.FAIL)[0]
    found = "; ".join(said for _, said, _ in troubles)
    hint = "; ".join(dict.fromkeys(cure for _, _, cure in troubles if cure))
    return (bad if worst is Level.FAIL else doubtful)(found, hint=hint, details=details)


def troubles_of(gpu: Gpu, case: Case) -> Iterator[Trouble]:
    yield from recovery(gpu)
    yield from rows(gpu)
    yield from sliced(gpu, case)
    yield from mode(gpu)
    if errors := value_of(gpu.ecc_uncorrected):
        said = f"card {gpu.index}: {errors} uncorrected memory errors since the driver was loaded"
        yield Level.WARN, said, "watch for Xid 48, 63, 94, 95; a reset maps bad rows out"
    if value_of(gpu.persistence) is False:
        cure = "`nvidia-smi -pm 1`, or nvidia-persistenced: else the driver starts anew with every first use"
        yield Level.WARN, f"card {gpu.index}: persistence mode is off", cure


def recovery(gpu: Gpu) -> Iterator[Trouble]:
    action = value_of(gpu.recovery_action)
    if action is None or action is RecoveryAction.NONE:
        return
    cure = "reboot the host" if action in REBOOTS else f"`nvidia-smi --gpu-reset -i {gpu.index}` with nothing on it"
    words = action.name.lower().replace("_", " ")
    yield Level.FAIL, f"card {gpu.index}: the driver asks for a {words}", cure


def rows(gpu: Gpu) -> Iterator[Trouble]:
    remapped = value_of(gpu.remapped_rows)
    if remapped is None:
        return
    if remapped.failed:
        yield Level.FAIL, f"card {gpu.index}: a memory row could not be replaced", "the card wants replacing"
    elif remapped.pending:
        reset = f"`nvidia-smi --gpu-reset -i {gpu.index}` with nothing on it"
        yield Level.FAIL, f"card {gpu.index}: a memory row waits to be replaced", reset


def sliced(gpu: Gpu, case: Case) -> Iterator[Trouble]:
    """A card in MIG mode shows slices to CUDA, never itself; a slice that was chosen by its own UUID is fine."""
    mig = value_of(gpu.mig)
    if mig is None or not (mig.enabled or mig.pending):
        return
    if not mig.enabled:
        yield Level.WARN, f"card {gpu.index}: will be sliced (MIG) after its next reset", ""
    elif not any(instance.uuid in case.plan.gpus for instance in mig.instances):
        cure = f"name slices (MIG-…) in the site's `gpus`, or `nvidia-smi -i {gpu.index} -mig 0` and a reset"
        yield Level.FAIL, f"card {gpu.index}: is sliced (MIG, {len(mig.instances)} instances)", cure


def mode(gpu: Gpu) -> Iterator[Trouble]:
    found = value_of(gpu.compute_mode)
    cure = f"`nvidia-smi -i {gpu.index} -c 0`"
    if found is ComputeMode.PROHIBITED:
        yield Level.FAIL, f"card {gpu.index}: compute mode is prohibited", cure
    elif found in (ComputeMode.EXCLUSIVE_PROCESS, ComputeMode.EXCLUSIVE_THREAD):
        yield Level.WARN, f"card {gpu.index}: compute mode lets one process in alone", cure


def odd_links(cards: Sequence[Gpu]) -> Iterator[Trouble]:
    """Cards of one name whose link can be narrower than their sisters': a bad riser or slot.

    What a link can do is compared, not what it does now (it downshifts at idle), and only with cards of the same name
    (some are x4 by design).
    """
    for gpu in cards:
        sisters = [value_of(one.pcie_width_max) or 0 for one in cards if one.name == gpu.name]
        mine = value_of(gpu.pcie_width_max)
        if mine is not None and mine < max(sisters):
            said = f"card {gpu.index}: PCIe x{mine}, where another {gpu.name} has x{max(sisters)}"
            yield Level.WARN, said, "look at its slot and riser; pipelines wait for the slowest link"


CHECK = Check(ID, "cards that can be used as they are", look, lambda c: c.uses_gpus, True)
