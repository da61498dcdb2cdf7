"""Does the host want a reboot before anything is started on its cards?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent.host.reading import Known, Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, doubtful, good, unknown
from agent.preflight.who import Holder, holder

ID = "host.boot"
LOOKS = 4
PAUSE_S = 0.3


async def look(case: Case) -> Answer:
    if stuck := await stuck_on_cards(case):
        found = "; ".join(f"{who} has a card open and waits in the kernel" for who in stuck)
        hint = "no signal ends it while it does: when it stays so, only a reboot frees the card"
        return doubtful(found, hint=hint, details={"stuck": [who.to_json() for who in stuck]})
    boot = await case.facts.boot()
    if isinstance(boot, Unknown):
        return unknown(boot.reason)
    details = {"uptime_s": boot.value.seconds, "packages": list(boot.value.wants)}
    if not boot.value.requested:
        return good("no reboot is asked for", details=details)
    why = f", for {', '.join(boot.value.wants[:5])}" if boot.value.wants else ""
    hint = "what runs goes on; reboot at a time of your choosing, not at the next failed start"
    return doubtful(f"the distribution asks for a reboot{why}", hint=hint, details=details)


async def stuck_on_cards(case: Case) -> list[Holder]:
    """Processes that have a card open and are in state D at every look: a moment in D (a read from disk) is nothing."""
    holders = await case.facts.gpu_holders()
    if not isinstance(holders, Known):
        return []
    stuck = await in_kernel(case, [one.pid for one in holders.value.found if one.pid not in case.credit.pids])
    for _ in range(LOOKS - 1):
        if stuck:
            await asyncio.sleep(PAUSE_S)
            stuck = await in_kernel(case, [who.pid for who in stuck])
    return stuck


async def in_kernel(case: Case, pids: Sequence[int]) -> list[Holder]:
    return [who for pid in pids if (who := await holder(case.facts, pid)).state == "D"]


CHECK = Check(ID, "the host asks for no reboot", look, lambda c: c.uses_gpus)
