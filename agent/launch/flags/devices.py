"""`--device`, `--device-cgroup-rule` and the throttles of block devices."""

from __future__ import annotations

import re
from typing import Any

from agent.launch import golang
from agent.launch.flags.kinds import refuse
from agent.launch.golang import Malformed
from agent.launch.model import Context, fold

_VENDOR = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_CLASS = re.compile(r"[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")
_DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_RULE = re.compile(r"[acb] ([0-9]+|\*):([0-9]+|\*) [rwm]{1,3}")


def is_cdi(name: str) -> bool:
    """Whether `--device` names a CDI device (`nvidia.com/gpu=0`) and no path. Raises Malformed."""
    kind, equals, device = name.partition("=")
    vendor, slash, family = kind.partition("/")
    if not (vendor and slash and family and equals and device) or name.startswith("/"):
        return False
    if not _VENDOR.fullmatch(vendor):
        return False
    crash = "the CLI itself fails on a CDI vendor or class of a single letter"
    refuse(len(vendor) == 1, crash)
    if not _CLASS.fullmatch(family):
        return False
    refuse(len(family) == 1, crash)
    return _DEVICE.fullmatch(device) is not None


def mapping(spec: str) -> dict[str, str]:
    """A device of the host and its place in the container. Raises Malformed."""
    parts = _validated(spec).split(":")
    source, target, mode = parts[0], parts[0], "rwm"
    if len(parts) == 2 and _is_mode(parts[1]):
        mode = parts[1]
    elif len(parts) == 2:
        target = parts[1]
    elif len(parts) == 3:
        target, mode = parts[1], parts[2]
    return {"PathOnHost": source, "PathInContainer": target, "CgroupPermissions": mode}


def _is_mode(text: str) -> bool:
    return bool(text) and set(text) <= set("rwm") and len(set(text)) == len(text)


def _validated(spec: str) -> str:
    parts = spec.split(":")
    refuse(not parts[0] or len(parts) > 3, f"bad format for path: {spec}")
    if len(parts) == 3:
        refuse(not _is_mode(parts[2]), f"bad mode specified: {parts[2]}")
        inside, mode = parts[1], f":{parts[2]}"
        head = f"{parts[0]}:"
    elif len(parts) == 2 and not _is_mode(parts[1]):
        inside, mode, head = parts[1], "", f"{parts[0]}:"
    else:
        inside, mode, head = parts[0], f":{parts[1]}" if len(parts) == 2 else "", ""
    refuse(not inside.startswith("/"), f"{inside} is not an absolute path")
    return f"{head}{fold(inside)}{mode}"


def cgroup_rule(value: str, _: Context) -> str:
    """`c 189:* rmw`. Raises Malformed."""
    refuse(not _RULE.fullmatch(value), f"invalid device cgroup format '{value}'")
    return value


def _device(value: str) -> tuple[str, str]:
    path, colon, rest = value.partition(":")
    refuse(not path or not colon, f"bad format: {value}")
    refuse(not path.startswith("/dev/"), f"bad format for device path: {value}")
    return path, rest


def rate_bytes(value: str, _: Context) -> dict[str, Any]:
    """`/dev/sda:10mb`, bytes a second. Raises Malformed."""
    path, rest = _device(value)
    try:
        rate = golang.ram(rest)
    except Malformed as error:
        raise Malformed(f"invalid rate for device: {value}. The form is <device-path>:<number>[<unit>]") from error
    refuse(rate < 0, f"invalid rate for device: {value}")
    return {"Path": path, "Rate": rate}


def rate_operations(value: str, _: Context) -> dict[str, Any]:
    """`/dev/sda:1000`, operations a second. Raises Malformed."""
    path, rest = _device(value)
    try:
        return {"Path": path, "Rate": golang.unsigned(rest, base=10)}
    except Malformed as error:
        raise Malformed(f"invalid rate for device: {value}. The form is <device-path>:<number>") from error


def weight(value: str, _: Context) -> dict[str, Any]:
    """`/dev/sda:500`: 0 or 10 to 1000. Raises Malformed."""
    path, rest = _device(value)
    try:
        number = golang.unsigned(rest, bits=16, base=10)
    except Malformed as error:
        raise Malformed(f"invalid weight for device: {value}") from error
    refuse(number != 0 and not 10 <= number <= 1000, f"invalid weight for device: {value}")
    return {"Path": path, "Weight": number}
