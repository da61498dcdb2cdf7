"""Every check, in the order of the pipeline. The ids are what `--accept` takes and what a plan's requirements carry.

| id | need of a plan's requirement | what is looked at |
| --- | --- | --- |
| `runtime.reachable` | – | the container engine answers and is a local one |
| `runtime.api` | – | its API knows every key of the body |
| `toolkit` | – | hook, runtime or CDI that hands GPUs to containers |
| `gpu.present` | – | the driver answers and shows the chosen cards |
| `gpu.count` | number of cards | chosen cards that answer |
| `gpu.model` | the card's name, such as `cmp-170hx` | names; an unlike one is a warning |
| `gpu.memory` | bytes of one card, nominal (5 % tolerance) | total memory of each chosen card |
| `gpu.architecture` | `sm_80`, `8.0 9.0+PTX` or a generation (`ampere`) | compute capability of each |
| `gpu.busy` | bytes that may be in use over all chosen cards | used memory, and by whom |
| `gpu.health` | – | MIG, compute mode, memory errors, the driver's own wish |
| `gpu.link` | – | each card's PCIe link at work against the best that this host has seen of it |
| `driver.version` | the floor, such as `610.57.04` | version of the driver that runs |
| `driver.skew` | – | kernel module against library on disk |
| `driver.cuda` | – | the image's CUDA against the driver's |
| `host.boot` | – | a reboot that is asked for, processes stuck on a card |
| `memory.total` | bytes, nominal (5 % tolerance) | RAM of the host |
| `memory.available` | bytes | MemAvailable, and who holds the most |
| `memory.swap` | – | how much of the host's memory lies in swap |
| `memlock` | bytes that must be lockable, -1 for no limit | the limit that the engine will start with |
| `shm` | bytes of shared memory | /dev/shm, or `--shm-size` |
| `disk.free` | bytes for image, weights and caches together (5 % tolerance) | free space, and what is there already |
| `name.free` | – | the container's name is free or ours |
| `port.free` | – | the published ports |
| `binds` | – | every mounted path exists and is of the right kind |
| `weights` | repository of the Hub, `owner/name[@revision]` or its address | the model's files, whole and readable |
| `image` | – | the image is here, or will be, and fits the machine |
| `image.arguments` | – | the engine's own parser, run inside the image, takes the launch's arguments; seconds |
| `gpu.touch` | – | on request (`--touch`): 64 MiB of each chosen card, taken, written and given back |
| `weights.hash` | – | on request (`--hash`): SHA-256 of the weights against what their source stated |

Sizes are `Bytes`, or text that `Bytes.parse` reads. A requirement's `words` are shown beside its origin.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from agent.errors import UsageError
from agent.preflight.check import Check
from agent.preflight.checks import (
    binds,
    disk_free,
    driver_cuda,
    driver_skew,
    driver_version,
    gpu_architecture,
    gpu_busy,
    gpu_count,
    gpu_health,
    gpu_link,
    gpu_memory,
    gpu_model,
    gpu_present,
    gpu_touch,
    host_boot,
    image,
    image_arguments,
    memlock,
    memory_available,
    memory_swap,
    memory_total,
    name_free,
    port_free,
    runtime_api,
    runtime_reachable,
    shm,
    toolkit,
    weights,
    weights_hash,
)

CHECKS: tuple[Check, ...] = tuple(
    module.CHECK
    for module in (
        runtime_reachable,
        runtime_api,
        toolkit,
        gpu_present,
        gpu_count,
        gpu_model,
        gpu_memory,
        gpu_architecture,
        gpu_busy,
        gpu_health,
        gpu_link,
        driver_version,
        driver_skew,
        driver_cuda,
        host_boot,
        memory_total,
        memory_available,
        memory_swap,
        memlock,
        shm,
        disk_free,
        name_free,
        port_free,
        binds,
        weights,
        image,
        image_arguments,
    )
)

ON_REQUEST: tuple[Check, ...] = (gpu_touch.CHECK, weights_hash.CHECK)
"""What takes long or touches something, and so is asked for by name."""

AFTER_STOP: frozenset[str] = frozenset(
    {"gpu.present", "gpu.busy", "gpu.health", "driver.skew", "memory.available", "name.free", "port.free", "binds"}
)
"""What is looked at again once the old engine is gone: whatever it held, and what may have changed meanwhile."""


class NoSuchCheck(UsageError):
    """A name that fits the form of the call and that no check has: over the API, a body that cannot be meant."""

    http_status = 422


def known(names: Iterable[str]) -> None:
    """Raises NoSuchCheck for a name that is no check: given by a slip, it would change nothing unsaid."""
    checks = [check.id for check in (*CHECKS, *ON_REQUEST)]
    for name in names:
        if name not in checks:
            near = get_close_matches(name, checks, 1)
            advice = f"did you mean {near[0]}?" if near else "agentctl preflight names them all in its answer"
            raise NoSuchCheck(why=f"{name!r} is no check", advice=advice)
