"""Is there room for image, weights and caches, and can they be written where they go?

The recipe's figure (about 700 GB) is for all of it together, so what lies there already counts as found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.host.model import DiskSpace
from agent.host.reading import Known, Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, doubtful, good, unknown
from agent.preflight.mounts import binds_of, on_host
from agent.preflight.nominal import TOLERANCE, at_least
from agent.quantity import Bytes

ID = "disk.free"
LITTLE = Bytes.gib(5)
FEW_INODES = 1000
HINT = "free room there (`docker system df`, old weights), or move Docker's data-root or the model folder"
NO_MODEL = "the launch names its model by no path: look at the room yourself, then --accept disk.free"
NO_MOUNTS = "start the container engine, or complete what the plan misses: mounts say where weights lie"


async def look(case: Case) -> Answer:
    writable = {bind.source for bind in binds_of(case.plan) if not bind.read_only}
    disks: dict[str, DiskSpace] = {}
    hindered: list[str] = []
    where = await places(case)
    if not where:
        hint = NO_MOUNTS if case.in_container else NO_MODEL
        return unknown("it is not known where image, weights and caches go", need=in_all(case), hint=hint)
    for path in where:
        disk = await case.facts.disk(path)
        if isinstance(disk, Unknown):
            return unknown(f"{path}: {disk.reason}")
        disks.setdefault(disk.value.mount, disk.value)
        if disk.value.read_only and path in writable:
            hindered.append(f"{path} lies on a read-only file system ({disk.value.mount})")
    details: dict[str, Any] = {"disks": [disk.to_json() for disk in disks.values()]}
    if hindered:
        return bad("; ".join(hindered), hint="remount it writable, or mount another folder", details=details)
    return await judge(case, tuple(disks.values()), details)


async def judge(case: Case, disks: Sequence[DiskSpace], details: dict[str, Any]) -> Answer:
    need = case.size_needed(ID)
    free = Bytes(sum(disk.available for disk in disks))
    there, complete = await present(case)
    details |= {"free": free, "there": there, "need": need, "tolerance": TOLERANCE}
    found = f"{free} free on {', '.join(disk.mount for disk in disks)}" + (f", {there} there already" if there else "")
    if need is not None and not at_least(free + there, need):
        hint = HINT if not complete else "image and weights are here, so that only caches must fit; " + HINT
        return (doubtful if complete else bad)(found, need=in_all(case), hint=hint, details=details)
    if doubts := [doubt for disk in disks for doubt in doubts_of(disk)]:
        return doubtful(f"{found}; {'; '.join(doubts)}", need=in_all(case), hint=HINT, details=details)
    return good(found, need=in_all(case), details=details)


def in_all(case: Case) -> str:
    """The need in words, empty where none is stated."""
    need = case.size_needed(ID)
    return f"{need} in all" if need else ""


def doubts_of(disk: DiskSpace) -> list[str]:
    doubts = []
    if disk.network:
        doubts.append(f"{disk.mount} is {disk.kind}, over a network: loads take longer and can hang")
    if disk.inodes_free is not None and disk.inodes_free < FEW_INODES and not disk.read_only:
        doubts.append(f"{disk.mount} has {disk.inodes_free} inodes left")
    if disk.available < LITTLE and not disk.read_only:
        doubts.append(f"{disk.mount} has only {disk.available} left")
    return doubts


async def places(case: Case) -> list[str]:
    """Where the image, the weights and the caches go."""
    engine = await case.facts.container_engine() if case.in_container else Unknown("no container engine is used")
    root = engine.value.root_dir if isinstance(engine, Known) else None
    sources = [bind.source for bind in binds_of(case.plan)]
    return list(dict.fromkeys([*([root] if root else []), *sources, *model(case)]))


def model(case: Case) -> list[str]:
    """The model's folder on the host, in a container or not."""
    path = case.plan.engine.model if case.plan.engine else None
    if path is None or not path.startswith("/"):
        return []
    host = on_host(path, binds_of(case.plan)) if case.in_container else path
    return [host] if host else []


async def present(case: Case) -> tuple[Bytes, bool]:
    """How much of it lies there already, and whether both image and weights do."""
    image = await case.facts.image(case.plan.image.reference) if case.plan.image else Unknown("no image is used")
    here = image.value if isinstance(image, Known) else None
    weights = [size for path in model(case) if (size := await size_of(case, path))]
    total = Bytes(sum(weights) + int(here.size or 0 if here else 0))
    return total, bool(weights) and (here is not None or case.plan.image is None)


async def size_of(case: Case, path: str) -> Bytes:
    """The files of a model folder (it is flat), or the file itself."""
    folder = await case.facts.folder(path)
    if isinstance(folder, Known):
        return Bytes(sum(entry.size for entry in folder.value))
    fact = await case.facts.path(path)
    return fact.value.size if isinstance(fact, Known) else Bytes(0)


def applies(case: Case) -> bool:
    return case.need(ID) is not None or case.in_container or bool(model(case))


CHECK = Check(ID, "room for image, weights and caches", look, applies)
