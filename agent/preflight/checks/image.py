"""Is the image here, or will it be; is it for this machine; and does it run what the launch gives it?"""

from __future__ import annotations

from agent.host.reading import Known, Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, doubtful, good, unknown
from agent.preflight.facts import Image

ID = "image"
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
COMES = {"pull": "it will be pulled", "build": "it will be built"}


async def look(case: Case) -> Answer:
    if silent := await case.no_engine():
        return unknown(silent.reason)
    plan = case.plan.image
    assert plan is not None  # noqa: S101  (`applies` asked)
    reading = await case.facts.image(plan.reference)
    if isinstance(reading, Unknown):
        return unknown(reading.reason)
    if reading.value is None:
        if plan.how in COMES:
            return good(f"{plan.reference} is not here yet; {COMES[plan.how]}")
        hint = f"build or load it under that name, or `docker tag … {plan.reference}`"
        return bad(f"{plan.reference} is not on this host", need="a local image of that name", hint=hint)
    return await judge(case, reading.value, plan.reference)


async def judge(case: Case, image: Image, reference: str) -> Answer:
    details = {"id": image.id, "architecture": image.architecture, "entrypoint": list(image.entrypoint)}
    engine = await case.facts.container_engine()
    machine = engine.value.machine if isinstance(engine, Known) else None
    if machine and image.architecture and MACHINES.get(image.architecture, image.architecture) != machine:
        hint = "take an image for this machine (--platform), or expect emulation at a small part of the speed"
        return doubtful(f"{reference} is for {image.architecture}, the host is {machine}", hint=hint, details=details)
    if headless(case, image):
        hint = "name the program in the launch (--entrypoint), or take the image that the recipe was written for"
        said = f"{reference} starts no program of its own, and the launch gives only flags"
        return bad(said, hint=hint, details=details)
    return good(f"{reference} is here ({image.id.removeprefix('sha256:')[:12]})", details=details)


def headless(case: Case, image: Image) -> bool:
    """Whether what is run would begin with a flag."""
    entrypoint = case.body.get("Entrypoint") or list(image.entrypoint)
    words: list[str] = [*entrypoint, *(case.body.get("Cmd") or [])]
    return bool(words) and words[0].startswith("-")


CHECK = Check(ID, "the image is here or will be", look, lambda c: c.in_container and c.plan.image is not None)
