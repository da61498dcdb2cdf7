"""Is the NVIDIA driver as new as the recipe says? A number in prose is a floor, which the site may lower."""

from __future__ import annotations

import re

from agent.host.reading import Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, good, unknown

ID = "driver.version"
HINT = "install that driver or a newer one; where this one is known to do, lower driver_version in the site's profile"


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


def reaches(found: str, floor: str) -> bool:
    """Dotted numbers part by part: `610.57.04` reaches `610.57`, `580.159.04` does not reach `610`."""
    return numbers(found) >= numbers(floor)


def numbers(version: str) -> tuple[int, ...]:
    """The parts as numbers; empty for what is no version. Trailing zeros do not count (`610.0` is `610`)."""
    match = re.match(r"\d+(?:\.\d+)*", version.strip())
    parts = [int(part) for part in match[0].split(".")] if match else []
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


CHECK = Check(ID, "the driver is new enough", look, lambda c: c.need(ID) is not None, True)
