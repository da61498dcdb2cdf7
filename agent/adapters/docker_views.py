"""The Engine's documents as our values (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from agent.adapters.docker_errors import DockerFailed
from agent.container.labels import identity_of
from agent.container.port import ContainerView, ImageFacts, RunState, RuntimeFacts, StopRequest
from agent.container.secrets import without_secrets

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)\Z")
_EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, never listened on


def seconds_of(text: str | None) -> float | None:
    """RFC 3339 with nanoseconds, as seconds since the epoch; None for Docker's zero time and what is no time."""
    found = _TIME.match(text or "")
    if found is None or found.group(1).startswith("0001-"):
        return None
    whole, fraction, zone = found.groups()
    return datetime.fromisoformat(whole + zone.replace("Z", "+00:00")).timestamp() + float(fraction or 0)


def view_of(document: Mapping[str, Any]) -> ContainerView | None:
    """From GET /containers/ID/json; None where it is not ours. Raises DockerFailed on a state that nobody knows."""
    config = document.get("Config") or {}
    identity = identity_of(config.get("Labels"))
    if identity is None:
        return None
    state = document.get("State") or {}
    status = _state(str(state.get("Status", "")))
    ended = status in (RunState.EXITED, RunState.DEAD)
    running = status in (RunState.RUNNING, RunState.PAUSED)
    started_at, finished_at = seconds_of(state.get("StartedAt")), seconds_of(state.get("FinishedAt"))
    return ContainerView(
        id=str(document["Id"]),
        name=name_of(document),
        slug=identity.slug,
        plan_id=identity.plan_id,
        generation=identity.generation,
        state=status,
        pid=int(state.get("Pid") or 0) or None if running else None,
        exit_code=int(state.get("ExitCode") or 0) if ended else None,
        oom_killed=bool(state.get("OOMKilled")),
        error=str(state.get("Error") or ""),
        started_at=started_at,
        # What ends at once may be noted as finished a millisecond before it was started (seen on Engine 20.10).
        finished_at=max(finished_at, started_at or 0.0) if finished_at is not None and ended else None,
        image=str(document.get("Image") or ""),
        address=address_of(document, identity.port) if running else None,
    )


def _state(status: str) -> RunState:
    try:
        return RunState(status)
    except ValueError as error:
        raise DockerFailed(action="look at a container", why=f"its state is {status!r}") from error


def name_of(document: Mapping[str, Any]) -> str:
    return str(document.get("Name") or "").removeprefix("/")


def evidence_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The whole document, secrets left out."""
    return without_secrets(document, document.get("Config") or {})


def address_of(document: Mapping[str, Any], port: int | None) -> tuple[str, int] | None:
    """Where the engine is reached from this host.

    On a host network its own port; else where that port is published, loopback for "all addresses"; else the
    container's own address. A container without the label of its port has an address if it publishes a single one.
    """
    mode = str((document.get("HostConfig") or {}).get("NetworkMode") or "")
    network = document.get("NetworkSettings") or {}
    ports = {key: found for key, found in (network.get("Ports") or {}).items() if key.endswith("/tcp") and found}
    if port is None:
        return _published(next(iter(ports.values()))) if len(ports) == 1 else None
    if mode == "host":
        return "127.0.0.1", port
    if found := ports.get(f"{port}/tcp"):
        return _published(found)
    own = _own_address(network)
    return (own, port) if own else None


def _published(bindings: Iterable[Mapping[str, str]]) -> tuple[str, int] | None:
    """The binding that this host reaches best: all addresses before one, IPv4 before IPv6."""
    usable = [binding for binding in bindings if str(binding.get("HostPort") or "").isdigit()]
    if not usable:
        return None

    def rank(binding: Mapping[str, str]) -> tuple[bool, bool]:
        address = binding.get("HostIp") or ""
        return ":" in address, address not in _EVERYWHERE

    best = min(usable, key=rank)
    address = best.get("HostIp") or ""
    if address in _EVERYWHERE:
        address = "::1" if address == "::" else "127.0.0.1"
    return address, int(best["HostPort"])


def _own_address(network: Mapping[str, Any]) -> str | None:
    joined = [network, *(network.get("Networks") or {}).values()]
    for key in ("IPAddress", "GlobalIPv6Address"):
        for one in joined:
            if address := (one or {}).get(key):
                return str(address)
    return None


def image_of(document: Mapping[str, Any]) -> ImageFacts:
    """From GET /images/NAME/json."""
    config = document.get("Config") or {}
    pairs = (str(entry).partition("=") for entry in config.get("Env") or ())
    return ImageFacts(
        id=str(document["Id"]),
        digests=tuple(document.get("RepoDigests") or ()),
        size=document.get("Size"),
        entrypoint=_words(config.get("Entrypoint")),
        command=_words(config.get("Cmd")),
        env={name: value for name, _, value in pairs},
        user=str(config.get("User") or ""),
        architecture=str(document.get("Architecture") or ""),
    )


def _words(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def facts_of(version: Mapping[str, Any], info: Mapping[str, Any]) -> RuntimeFacts:
    """From GET /version and GET /info."""
    names = [str(part.get("Name", "")) for part in version.get("Components") or ()]
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    return RuntimeFacts(
        name="podman" if any("podman" in name.lower() for name in names) else "docker",
        version=str(version.get("Version") or ""),
        api_version=version.get("ApiVersion"),
        rootless=any("rootless" in option for option in options),
        root_dir=info.get("DockerRootDir"),
        runtimes=tuple(sorted(info.get("Runtimes") or ())),
        storage_driver=info.get("Driver"),
        live_restore=info.get("LiveRestoreEnabled"),
        cgroup_version=info.get("CgroupVersion"),
        cgroup_driver=info.get("CgroupDriver"),
        default_runtime=info.get("DefaultRuntime"),
        operating_system=info.get("OperatingSystem"),
        machine=info.get("Architecture"),
    )


_STOPS = {"1": "HUP", "2": "INT", "3": "QUIT", "9": "KILL", "15": "TERM"}
"""Signals that ask for an end, by the numbers that events give; others (USR1 to dump stacks, …) are no stop."""


def stop_of(events: Iterable[Mapping[str, Any]]) -> StopRequest | None:
    """The last stop among a container's events: `docker stop` makes `kill` and `stop`, `docker kill` only `kill`."""
    last: StopRequest | None = None
    for event in events:
        action = str(event.get("Action") or event.get("status") or "")
        at = float(event.get("timeNano") or 0) / 1e9 or float(event.get("time") or 0)
        number = str(((event.get("Actor") or {}).get("Attributes") or {}).get("signal") or "")
        if action == "kill" and (name := _STOPS.get(number)):
            last = StopRequest(at, name)
        elif action == "stop" and last is None:
            last = StopRequest(at, "TERM")
    return last
