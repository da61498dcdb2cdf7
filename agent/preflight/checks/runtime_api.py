"""Does the container engine know every key of the body? An older one silently ignores what it does not know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent.host.reading import Unknown
from agent.preflight.case import Case, asks_for_gpus
from agent.preflight.check import Answer, Check, bad, good, unknown
from agent.preflight.versions import numbers, reaches

ID = "runtime.api"
SINCE: Mapping[str, str] = {
    "DeviceRequests": "1.40",
    "Capabilities": "1.40",
    "CgroupnsMode": "1.41",
    "Annotations": "1.43",
}
"""Keys of HostConfig and the API version that brought each (Docker's API version history)."""
OLDEST = "1.40"
"""`--gpus` came with it (Docker 19.03)."""


async def look(case: Case) -> Answer:
    reading = await case.facts.container_engine()
    if isinstance(reading, Unknown):
        return unknown(reading.reason)
    version = reading.value.api_version
    if version is None:
        return unknown(f"{reading.value.name} does not tell its API version")
    wanted = dict(needs(case))
    lowest = max(wanted.values(), key=numbers, default=OLDEST)
    details = {"api": version, "keys": wanted}
    if reaches(version, lowest):
        return good(f"API {version}", need=f"API {lowest} or newer", details=details)
    lacking = ", ".join(key for key, since in wanted.items() if not reaches(version, since))
    hint = f"update the container engine: {reading.value.version} would ignore {lacking}"
    return bad(f"API {version}", need=f"API {lowest} for {lacking}", hint=hint, details=details)


def needs(case: Case) -> Iterator[tuple[str, str]]:
    """The keys that this body uses, with the API version that each needs."""
    host = case.host_config
    yield from ((key, since) for key, since in SINCE.items() if host.get(key))
    if any(cdi(request) for request in host.get("DeviceRequests") or () if asks_for_gpus(request)):
        yield "DeviceRequests[].Driver=cdi", "1.44"
    if any((mount.get("VolumeOptions") or {}).get("Subpath") for mount in host.get("Mounts") or ()):
        yield "Mounts[].VolumeOptions.Subpath", "1.45"
    if any(mount.get("Type") == "image" for mount in host.get("Mounts") or ()):
        yield "Mounts[].Type=image", "1.47"
    if (case.body.get("Healthcheck") or {}).get("StartInterval"):
        yield "Healthcheck.StartInterval", "1.44"


def cdi(request: Mapping[str, Any]) -> bool:
    return request.get("Driver") == "cdi"


CHECK = Check(ID, "the container engine knows what the launch uses", look, lambda c: c.in_container)
