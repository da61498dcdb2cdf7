"""GPUs of a service: `deploy.resources.reservations.devices`, and the shorter `gpus`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent.launch.compose.values import items, pairs, text, texts
from agent.launch.refusal import BadCompose


def requests(service: Mapping[str, Any]) -> list[dict[str, Any]]:
    """`HostConfig.DeviceRequests`. Raises BadCompose."""
    deploy = service.get("deploy") or {}
    resources = (deploy.get("resources") or {}) if isinstance(deploy, Mapping) else {}
    reserved = (resources.get("reservations") or {}).get("devices")
    return [*(_request(item, []) for item in items(reserved, "devices")), *_gpus(service.get("gpus"))]


def _gpus(value: Any) -> Iterator[dict[str, Any]]:
    if value == "all":
        yield _request({"count": -1}, ["gpu"])
        return
    for item in items(value, "gpus"):
        yield _request(item, ["gpu"])


def _request(item: Any, extra: list[str]) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        raise BadCompose(where="devices", why="a map is expected", how="write driver, count and capabilities")
    ids, count = texts(item.get("device_ids")), item.get("count")
    if ids and count is not None:
        raise BadCompose(where="devices", why="count and device_ids exclude each other", how="keep one of them")
    capabilities = texts(item.get("capabilities"))
    if not capabilities and not extra:
        raise BadCompose(where="devices", why="capabilities are missing", how="add capabilities: [gpu]")
    return {
        "Driver": text(item.get("driver")),
        "Count": 0 if ids else _count(count),
        "DeviceIDs": ids or None,
        "Capabilities": [[*capabilities, *(word for word in extra if word not in capabilities)]],
        "Options": pairs(item.get("options"), "options") or None,
    }


def _count(value: Any) -> int:
    """`all`, which is also what nothing means, or a number."""
    if value in (None, "all"):
        return -1
    if text(value).lstrip("-").isdecimal() and len(text(value)) < 10:
        return int(text(value))
    raise BadCompose(where="devices.count", why=f"{value!r} is no count", how='write a number, or "all"')
