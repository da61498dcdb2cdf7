"""Does the driver serve the CUDA version that the image was built with?"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent.host.reading import Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, doubtful, good, unknown
from agent.preflight.versions import minor, reaches

ID = "driver.cuda"
HINT = "a newer driver, or an image for an older CUDA; within one major version it may run all the same, JIT apart"


async def look(case: Case) -> Answer:
    if silent := await case.no_engine():
        return unknown(silent.reason)
    reference = case.plan.image.reference if case.plan.image else ""
    image = await case.facts.image(reference)
    if isinstance(image, Unknown):
        return unknown(image.reason)
    built = None if image.value is None else cuda_of(image.value.env)
    if built is None:
        return good("the image is not here yet" if image.value is None else "the image names no CUDA version")
    driver = await case.facts.driver()
    need = f"CUDA {built}"
    if isinstance(driver.cuda, Unknown):
        return unknown(f"the driver's CUDA version cannot be read: {driver.cuda.reason}", need=need, origin=reference)
    details = {"driver": driver.cuda.value, "image": built}
    found = f"the driver serves CUDA {driver.cuda.value}"
    if not reaches(driver.cuda.value, minor(built)):
        return doubtful(found, need=need, origin=reference, hint=HINT, details=details)
    return good(found, need=need, origin=reference, details=details)


def cuda_of(env: Mapping[str, str]) -> str | None:
    """CUDA's version in an image: NVIDIA's own base images set CUDA_VERSION and NVIDIA_REQUIRE_CUDA."""
    if version := env.get("CUDA_VERSION"):
        return version
    required = re.search(r"cuda>=(\d+\.\d+)", env.get("NVIDIA_REQUIRE_CUDA", ""))
    return required[1] if required else None


CHECK = Check(ID, "the driver serves the image's CUDA", look, lambda c: c.uses_gpus and c.plan.image is not None)
