"""GPUs, devices and their cgroup rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent.launch.writing.record import record


def flags(host: Mapping[str, Any]) -> Iterator[str]:
    """`--gpus`, `--device`, `--device-cgroup-rule`, throttles."""
    for request in host.get("DeviceRequests") or []:
        yield from _request(request)
    for device in host.get("Devices") or []:
        yield from ("--device", _mapping(device))
    for rule in host.get("DeviceCgroupRules") or []:
        yield from ("--device-cgroup-rule", rule)
    for key, flag in _THROTTLES.items():
        for limit in host.get(key) or []:
            yield from (flag, f"{limit['Path']}:{limit.get('Rate', limit.get('Weight'))}")


_THROTTLES = {
    "BlkioWeightDevice": "--blkio-weight-device",
    "BlkioDeviceReadBps": "--device-read-bps",
    "BlkioDeviceWriteBps": "--device-write-bps",
    "BlkioDeviceReadIOps": "--device-read-iops",
    "BlkioDeviceWriteIOps": "--device-write-iops",
}


def _request(request: Mapping[str, Any]) -> Iterator[str]:
    if request.get("Driver") == "cdi" and not request.get("Capabilities"):
        for name in request.get("DeviceIDs") or []:
            yield from ("--device", name)
        return
    yield from ("--gpus", record(_fields(request)))


def _fields(request: Mapping[str, Any]) -> Iterator[str]:
    count, ids = request.get("Count") or 0, request.get("DeviceIDs")
    if count == -1:
        yield "all"
    elif count or not ids:
        yield str(count)
    if ids:
        yield "device=" + ",".join(ids)
    if request.get("Driver"):
        yield f"driver={request['Driver']}"
    for names in (request.get("Capabilities") or [])[:1]:
        wanted = list(names)
        if wanted[-1:] == ["gpu"]:
            wanted.pop()
        if wanted:
            yield "capabilities=" + ",".join(wanted)
    if options := request.get("Options"):
        yield "options=" + record(f"{name}={value}" for name, value in options.items())


def _mapping(device: Mapping[str, Any]) -> str:
    source, target = device.get("PathOnHost", ""), device.get("PathInContainer") or device.get("PathOnHost", "")
    mode = device.get("CgroupPermissions") or "rwm"
    if mode != "rwm":
        return f"{source}:{target}:{mode}"
    return str(source) if source == target else f"{source}:{target}"
