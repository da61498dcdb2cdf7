"""Which Engine API brought which key of a container body: an older engine drops what it does not know, in silence.

Sources: the Engine API version history of docs.docker.com, and what CLI 28 itself refuses to send to an older engine.
API 1.40 came with Engine 19.03, 1.41 with 20.10, 1.42 with 23.0, 1.43 with 24.0, 1.44 with 25.0, 1.45 with 26.0,
1.46 with 27.0, 1.48 with 28.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent.launch.equal import is_empty

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Need:
    """A key that the body uses, and the API version that brought it."""

    key: str
    since: Version

    def __str__(self) -> str:
        return f"{self.key} (API {self.since[0]}.{self.since[1]})"


_HOST: Mapping[str, Version] = {
    "DeviceRequests": (1, 40),
    "CgroupnsMode": (1, 41),
    "Annotations": (1, 43),
    "Umask": (1, 56),
}
_MOUNT: Mapping[tuple[str, str], Version] = {
    ("BindOptions", "NonRecursive"): (1, 40),
    ("BindOptions", "CreateMountpoint"): (1, 42),
    ("BindOptions", "ReadOnlyNonRecursive"): (1, 44),
    ("BindOptions", "ReadOnlyForceRecursive"): (1, 44),
    ("VolumeOptions", "Subpath"): (1, 45),
    ("TmpfsOptions", "Options"): (1, 46),
    ("ImageOptions", "Subpath"): (1, 48),
}
_MOUNT_TYPE: Mapping[str, Version] = {"cluster": (1, 42), "image": (1, 48)}
_ENDPOINT: Mapping[str, Version] = {"MacAddress": (1, 44), "GwPriority": (1, 48)}


def unknown_keys(body: Mapping[str, Any], api_version: str) -> list[str]:
    """The keys of `body` that say something and that an engine of `api_version` ("1.41") does not know."""
    have = version(api_version)
    return [str(need) for need in needs(body) if need.since > have]


def version(text: str) -> Version:
    """`1.41` as numbers that compare. Raises ValueError."""
    major, _, minor = text.strip().partition(".")
    return int(major), int(minor)


def needs(body: Mapping[str, Any]) -> list[Need]:
    """Every key in use that not all engines know, in the order of the body."""
    host = body.get("HostConfig") or {}
    readers: tuple[Callable[[], Iterator[Need]], ...] = (
        lambda: _health(body.get("Healthcheck") or {}),
        lambda: _host(host),
        lambda: _mounts(host.get("Mounts") or []),
        lambda: _endpoints((body.get("NetworkingConfig") or {}).get("EndpointsConfig") or {}),
    )
    return list(dict.fromkeys(need for reader in readers for need in reader()))


def _health(check: Mapping[str, Any]) -> Iterator[Need]:
    if check.get("StartInterval"):
        yield Need("Healthcheck.StartInterval", (1, 44))


def _host(host: Mapping[str, Any]) -> Iterator[Need]:
    for key, since in _HOST.items():
        if not is_empty(host.get(key)):
            yield Need(f"HostConfig.{key}", since)
    if any(request.get("Driver") == "cdi" for request in host.get("DeviceRequests") or []):
        yield Need("HostConfig.DeviceRequests[].Driver=cdi", (1, 44))


def _mounts(mounts: list[Mapping[str, Any]]) -> Iterator[Need]:
    for mount in mounts:
        if since := _MOUNT_TYPE.get(mount.get("Type", "")):
            yield Need(f"HostConfig.Mounts[].Type={mount['Type']}", since)
        for (options, key), since in _MOUNT.items():
            if not is_empty((mount.get(options) or {}).get(key)):
                yield Need(f"HostConfig.Mounts[].{options}.{key}", since)


def _endpoints(endpoints: Mapping[str, Any]) -> Iterator[Need]:
    if len(endpoints) > 1:
        yield Need("NetworkingConfig.EndpointsConfig of more than one network", (1, 44))
    for endpoint in endpoints.values():
        for key, since in _ENDPOINT.items():
            if not is_empty((endpoint or {}).get(key)):
                yield Need(f"NetworkingConfig.EndpointsConfig.*.{key}", since)
