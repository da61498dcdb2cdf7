"""Do the kernel's module and the library on disk belong together?

After an unattended upgrade running engines go on for days; the next start fails with `driver/library version mismatch`.
"""

from __future__ import annotations

from agent.host.reading import Known, Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, good, unknown

ID = "driver.skew"
HINT = "reboot (or unload and load the nvidia modules with nothing on the cards); hold the driver's packages back after"


async def look(case: Case) -> Answer:
    driver = await case.facts.driver()
    skewed = driver.skewed
    if isinstance(skewed, Unknown):
        return unknown(f"cannot be compared: {skewed.reason}", details=driver.to_json())
    if skewed.value and isinstance(driver.kernel_module, Known) and isinstance(driver.userland, Known):
        found = f"the kernel runs {driver.kernel_module.value}, the library on disk is {driver.userland.value}"
        return bad(found, need="the same version", hint=HINT, details=driver.to_json())
    return good("the same version in the kernel and on disk", details=driver.to_json())


CHECK = Check(ID, "kernel module and library of the driver agree", look, lambda c: c.uses_gpus)
