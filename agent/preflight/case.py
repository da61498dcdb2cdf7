"""What one run of checks is about: a plan, the facts of this host, and what the deployment holds already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.host.gpu import Gpu
from agent.host.reading import Known, Reading, Unknown
from agent.plan.model import Plan, Requirement
from agent.preflight.facts import NO_BYTES, Facts
from agent.quantity import Bytes

GPU_COUNT = "gpu.count"


@dataclass(frozen=True, slots=True)
class Credit:
    """What the running deployment holds itself, so that its own successor is not refused for it.

    `host_memory` is the RAM that comes back when it stops. `gpu_memory`: card UUID → bytes.
    """

    container: str | None = None
    name: str | None = None
    pids: frozenset[int] = frozenset()
    gpu_memory: Mapping[str, Bytes] = field(default_factory=dict)
    host_memory: Bytes = NO_BYTES
    ports: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Case:
    """The subject of every check."""

    plan: Plan
    facts: Facts
    credit: Credit = field(default_factory=Credit)

    def need(self, check: str) -> Requirement | None:
        """The plan's requirement that this check answers."""
        return next((need for need in self.plan.requirements if need.id == check), None)

    def size_needed(self, check: str) -> Bytes | None:
        """The same as a number of bytes; ValueError when it is written as something else."""
        need = self.need(check)
        if need is None:
            return None
        return Bytes.parse(need.need) if isinstance(need.need, str) else Bytes(int(need.need))

    @property
    def body(self) -> Mapping[str, Any]:
        """The body of POST /containers/create; empty where no container is made."""
        return self.plan.container.body if self.plan.container else {}

    @property
    def host_config(self) -> Mapping[str, Any]:
        return self.body.get("HostConfig") or {}

    @property
    def in_container(self) -> bool:
        return self.plan.runtime == "docker"

    @property
    def uses_gpus(self) -> bool:
        """Whether the launch asks for cards, the recipe names any, or some were chosen."""
        asked = any(asks_for_gpus(request) for request in self.host_config.get("DeviceRequests") or ())
        counted = self.need(GPU_COUNT)
        return asked or bool(self.plan.gpus) or (counted is not None and counted.need != 0)

    async def no_engine(self) -> Unknown | None:
        """Why the container engine cannot be asked; None when it can. Asked first, it saves each check its own wait."""
        engine = await self.facts.container_engine()
        return engine if isinstance(engine, Unknown) else None

    async def cards(self) -> Reading[tuple[Gpu, ...]]:
        """The chosen cards, all of the host's where none were chosen; a chosen one that is not there is left out."""
        reading = await self.facts.gpus()
        if not isinstance(reading, Known) or not self.plan.gpus:
            return reading
        return Known(tuple(gpu for gpu in reading.value if self.chosen(gpu)), reading.at)

    def chosen(self, gpu: Gpu) -> bool:
        """Whether the plan names this card, or a MIG slice of it."""
        return bool(set(self.plan.gpus) & uuids(gpu))


def uuids(gpu: Gpu) -> set[str]:
    """The card's UUID and those of its MIG slices."""
    return {gpu.uuid, *(instance.uuid for instance in gpu.slices)}


def asks_for_gpus(request: Mapping[str, Any]) -> bool:
    """Whether a DeviceRequest of the body is `--gpus` or a CDI name of NVIDIA's."""
    flat = {word for group in request.get("Capabilities") or () for word in group}
    return "gpu" in flat or any(str(name).startswith("nvidia.com/") for name in request.get("DeviceIDs") or ())
