"""Is the NVIDIA driver as new as the recipe says? A number in prose is a floor, which the site may lower."""

from __future__ import annotations

from agent.host.reading import Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, good, unknown
from agent.preflight.versions import numbers, reaches

ID = "driver.version"
HINT = (
    "install that driver or a newer one; where this one is known to do, set requirements.driver in the site's profile"
)


async def look(case: Case) -> Answer:
    need = case.need(ID)
    floor = str(need.need) if need else ""
    driver = await case.facts.driver()
    # The module in the kernel is what runs; NVML's answer is the same number when it answers at all.
    running = driver.kernel_module if isinstance(driver.version, Unknown) else driver.version
    stated = f"{floor} or newer"
    if isinstance(running, Unknown):
        return unknown(f"the driver's version cannot be read: {running.reason}", need=stated)
    if not (numbers(floor) and numbers(running.value)):
        return unknown(f"{running.value} cannot be compared with {floor!r}", need=stated)
    details = {"found": running.value, "floor": floor}
    if not reaches(running.value, floor):
        return bad(running.value, need=stated, hint=HINT, details=details)
    return good(running.value, need=stated, details=details)


CHECK = Check(ID, "the driver is new enough", look, lambda c: c.need(ID) is not None, True)
