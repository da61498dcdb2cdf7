"""Is there enough shared memory for processes that talk through /dev/shm (NCCL, vLLM's workers)?"""

from __future__ import annotations

from typing import Any

from agent.host.reading import Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, doubtful, good, unknown
from agent.quantity import Bytes

ID = "shm"
FOLDER = "/dev/shm"  # noqa: S108
DOCKER_DEFAULT = Bytes.mib(64)
USUAL = Bytes.gib(1)
"""Below this, NCCL between several cards is known to end in `unable to allocate shared memory`."""


async def look(case: Case) -> Answer:
    need = case.size_needed(ID)
    if shares_hosts(case):
        return await on_host(case, need)
    size = Bytes(int(case.host_config.get("ShmSize") or DOCKER_DEFAULT))
    hint = "--ipc=host or --shm-size in the launch (profile `launch.args`)"
    return judge(size, f"{size} in the container (--shm-size)", need, hint, {"bytes": size})


async def on_host(case: Case, need: Bytes | None) -> Answer:
    disk = await case.facts.disk(FOLDER)
    if isinstance(disk, Unknown):
        return unknown(f"{FOLDER}: {disk.reason}")
    if disk.value.mount != FOLDER:
        hint = f"`mount -t tmpfs tmpfs {FOLDER}`, or shared memory is not there, or fills {disk.value.mount}"
        return doubtful(f"{FOLDER} is no file system of its own", hint=hint)
    free = disk.value.available
    hint = f"`mount -o remount,size=… {FOLDER}`, and look what lies there: leftovers of ended engines stay"
    details = {"bytes": free, "total": disk.value.total}
    return judge(free, f"{free} free of {disk.value.total} in the host's {FOLDER}", need, hint, details)


def judge(size: Bytes, found: str, need: Bytes | None, hint: str, details: dict[str, Any]) -> Answer:
    if need is not None and size < need:
        return bad(found, need=str(need), hint=hint, details=details)
    if need is None and size < USUAL:
        origin = "NCCL and vLLM between several processes; the recipe states none"
        return doubtful(found, need=f"{USUAL}", origin=origin, hint=hint, details=details)
    return good(found, need=str(need or USUAL), details=details)


def shares_hosts(case: Case) -> bool:
    """Whether the engine uses the host's own /dev/shm: `--ipc=host`, a mount of it, or no container at all."""
    mounted = any(str(bind).startswith(f"{FOLDER}:") for bind in case.host_config.get("Binds") or ())
    return not case.in_container or case.host_config.get("IpcMode") == "host" or mounted


def applies(case: Case) -> bool:
    """Where several processes share work, or a size is stated."""
    parallel = case.plan.engine is not None and case.plan.engine.gpus_needed > 1
    return case.need(ID) is not None or parallel


CHECK = Check(ID, "shared memory is large enough", look, applies)
