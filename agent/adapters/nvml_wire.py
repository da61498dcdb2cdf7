"""Cards and events as they travel from NVML's process to the agent: the JSON of the models, read back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agent.clock import Instant
from agent.host.gpu import (
    READINGS,
    ComputeCapability,
    ComputeMode,
    Gpu,
    GpuEvent,
    GpuEventKind,
    GpuProcess,
    Mig,
    MigInstance,
    RecoveryAction,
    RemappedRows,
    Shares,
)
from agent.host.reading import Known, Reading, Unknown
from agent.quantity import Bytes

Document = Mapping[str, Any]
Shape = Callable[[Any, Instant], Any]


def decode_card(document: Document, at: Instant) -> Gpu:
    """The card of `Gpu.to_json()`, its readings as of `at`."""
    readings = {name: decode_reading(document, name, _SHAPES.get(name, _as_is), at) for name in READINGS}
    return Gpu(
        index=document["index"],
        uuid=document["uuid"],
        pci=document["pci"],
        name=document["name"],
        lost=document["lost"],
        **readings,
    )


def decode_event(document: Document, at: Instant) -> GpuEvent:
    """The event that NVML's process reported."""
    return GpuEvent(
        kind=GpuEventKind(document["kind"]),
        uuid=document["uuid"],
        pci=document["pci"],
        data=document["data"],
        at=at,
        instance=document["instance"],
    )


def decode_shares(documents: Iterable[Document], at: Instant) -> dict[str, Reading[Shares]]:
    """By UUID, of `nvml_shares.shares_json`."""
    return {
        document["uuid"]: decode_reading(document, "shares", lambda pairs, _: dict(map(tuple, pairs)), at)
        for document in documents
    }


def decode_text(document: Document, name: str, at: Instant) -> Reading[str]:
    """A reading that is a text."""
    return decode_reading(document, name, _as_is, at)


def decode_reading(document: Document, name: str, shape: Shape, at: Instant) -> Reading[Any]:
    """The reading `name` of a document that `reading.to_json` made."""
    reason = document["unknown"].get(name)
    if reason is not None:
        return Unknown(reason, unsupported=name in document["unsupported"])
    return Known(shape(document[name], at), at)


def _as_is(value: Any, at: Instant) -> Any:
    return value


def _bytes(value: Any, at: Instant) -> Bytes:
    return Bytes(value)


def _capability(value: str, at: Instant) -> ComputeCapability:
    major, minor = value.split(".")
    return ComputeCapability(int(major), int(minor))


def _process(document: Document, at: Instant) -> GpuProcess:
    memory = decode_reading(document, "memory", _bytes, at)
    return GpuProcess(document["pid"], memory, document["kind"], document["instance"])


def _instance(document: Document, at: Instant) -> MigInstance:
    total, used = (decode_reading(document, name, _bytes, at) for name in ("memory_total", "memory_used"))
    return MigInstance(document["uuid"], document["gpu_instance"], document["compute_instance"], total, used)


def _mig(document: Document, at: Instant) -> Mig:
    instances = tuple(_instance(one, at) for one in document["instances"])
    return Mig(document["enabled"], document["pending"], instances)


_SHAPES: dict[str, Shape] = {
    "memory_total": _bytes,
    "memory_used": _bytes,
    "memory_reserved": _bytes,
    "compute_capability": _capability,
    "throttle": lambda value, at: tuple(value),
    "mig": _mig,
    "compute_mode": lambda value, at: ComputeMode(value),
    "remapped_rows": lambda value, at: RemappedRows(**value),
    "recovery_action": lambda value, at: RecoveryAction(value),
    "processes": lambda value, at: tuple(_process(one, at) for one in value),
}
