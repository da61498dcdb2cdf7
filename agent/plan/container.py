"""A launch's body as this agent runs it: detached, logged within bounds, restarted by nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.launch.model import ClientFlags, ContainerLaunch
from agent.profile.document import Profile
from agent.profile.fact import Fact
from agent.settings.model import Logs

_READABLE = ("", "json-file", "local", "journald")
"""Log drivers whose log the Engine gives back."""


@dataclass(frozen=True, slots=True)
class Edited:
    """A body, and in sentences what was changed of what its author wrote."""

    body: dict[str, Any]
    warnings: tuple[str, ...] = ()


def detached(launch: ContainerLaunch) -> Edited:
    """Without terminal, attachment and --rm: the log must outlive the container's end."""
    flags = launch.client
    body = dict(launch.body) | {"AttachStdin": False, "AttachStdout": False, "AttachStderr": False}
    body |= {"Tty": False, "OpenStdin": False, "StdinOnce": False}
    host = dict(body.get("HostConfig") or {}) | {"AutoRemove": False, "ContainerIDFile": ""}
    dropped = [word for word, given in _client(flags) if given]
    warnings = [f"{', '.join(dropped)} is left out: the container runs detached and its log is kept"] if dropped else []
    policy = (host.get("RestartPolicy") or {}).get("Name") or "no"
    if policy != "no":
        warnings.append(f"--restart {policy} is left out: the agent restarts, with evidence and a budget")
    host["RestartPolicy"] = {"Name": "no", "MaximumRetryCount": 0}
    return Edited(body | {"HostConfig": host}, tuple(warnings))


def _client(flags: ClientFlags) -> list[tuple[str, bool]]:
    return [
        ("--rm", flags.rm),
        ("-i", flags.interactive),
        ("-t", flags.tty),
        ("--attach", bool(flags.attach)),
        ("--cidfile", bool(flags.cidfile)),
    ]


def bounded_log(body: Mapping[str, Any], logs: Logs) -> Edited:
    """The author's own bounds where there are any; a driver that keeps nothing to read is replaced."""
    host = dict(body.get("HostConfig") or {})
    stated = host.get("LogConfig") or {}
    driver, options = stated.get("Type") or "", dict(stated.get("Config") or {})
    warnings: tuple[str, ...] = ()
    if driver not in _READABLE:
        warnings = (
            f"--log-driver {driver} is replaced by json-file: the agent reads the log and keeps it as evidence",
        )
        driver, options = "", {}
    if driver != "journald":
        driver = driver or "json-file"
        options = {
            **_bounds(driver, options, logs),
            **{name: text for name, text in options.items() if not _open(name, text)},
        }
    host["LogConfig"] = {"Type": driver, "Config": options}
    return Edited({**body, "HostConfig": host}, warnings)


def _open(name: str, text: str) -> bool:
    """A size that bounds nothing (json-file's own default)."""
    return name == "max-size" and text in ("", "-1")


def _bounds(driver: str, options: Mapping[str, str], logs: Logs) -> dict[str, str]:
    """The site's bounds, such that the Engine takes them: it refuses to compress where only one file is kept.

    `local` compresses unless it is told not to, json-file only where its author asks for it.
    """
    bounds = {"max-size": str(logs.engine_max_size), "max-file": str(logs.engine_max_files)}
    if logs.engine_max_files > 1:
        return bounds
    if driver == "local":
        return bounds | {"compress": "false"}
    return bounds | ({"max-file": "2"} if options.get("compress") == "true" else {})


def with_environment(body: Mapping[str, Any], env: Mapping[str, Fact[str]]) -> dict[str, Any]:
    """The body with a profile's variables added, or in place of the author's."""
    if not env:
        return dict(body)
    stated = {name: f"{name}={fact.value}" for name, fact in env.items()}
    kept = [word for word in body.get("Env") or () if word.partition("=")[0] not in stated]
    return {**body, "Env": [*kept, *stated.values()]}


def with_arguments(body: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """The engine's arguments with the profile's at their end, where a flag given twice counts."""
    added = [word for part in profile.launch.arguments for word in part.argv]
    return {**body, "Cmd": [*(body.get("Cmd") or ()), *added]} if added else dict(body)


def with_room(body: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """The body with a profile's mounts and its size of /dev/shm."""
    host = dict(body.get("HostConfig") or {})
    if profile.mounts is not None:
        host["Binds"] = [*(host.get("Binds") or ()), *profile.mounts.value]
    if profile.shm_size is not None:
        host["ShmSize"] = profile.shm_size.value
    return {**body, "HostConfig": host}


def on_ports(body: Mapping[str, Any], ports: Mapping[int, int]) -> dict[str, Any]:
    """The body with other ports of the host for ports of the container; unpublished ones are published by it."""
    if not ports:
        return dict(body)
    host = dict(body.get("HostConfig") or {})
    bindings = dict(host.get("PortBindings") or {})
    for inner, outer in ports.items():
        key = f"{inner}/tcp"
        first = (bindings.get(key) or [{"HostIp": "", "HostPort": ""}])[0]
        bindings[key] = [{**first, "HostPort": str(outer)}]
    exposed = {**(body.get("ExposedPorts") or {}), **{f"{inner}/tcp": {} for inner in ports}}
    return {**body, "ExposedPorts": exposed, "HostConfig": {**host, "PortBindings": bindings}}


def on_address(body: Mapping[str, Any], inner: int | None, address: str | None) -> dict[str, Any]:
    """The body with the engine's port published on one address of the host alone."""
    if inner is None or address is None:
        return dict(body)
    host, key = dict(body.get("HostConfig") or {}), f"{inner}/tcp"
    bindings = dict(host.get("PortBindings") or {})
    places = bindings.get(key) or [{"HostPort": str(inner)}]
    bindings[key] = [{**place, "HostIp": address} for place in places]
    exposed = {**(body.get("ExposedPorts") or {}), key: {}}
    return {**body, "ExposedPorts": exposed, "HostConfig": {**host, "PortBindings": bindings}}
