"""One service into one container body: through the CLI's own words, and what no flag can say set afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agent.launch import cli
from agent.launch.body import launch_of
from agent.launch.compose import flags, gpus, health, network, volumes
from agent.launch.compose.dotenv import entries
from agent.launch.compose.interpolate import Interpolation
from agent.launch.compose.project import Project
from agent.launch.compose.values import items, pairs, text, words
from agent.launch.model import ContainerLaunch, LaunchWarning
from agent.launch.refusal import BadCompose, FileUnread

_REFUSED = {
    "secrets": "mount the files, or give the values as variables",
    "configs": "mount the files",
    "extends": "write the service out (docker compose config does)",
    "credential_spec": "leave it out",
    "provider": "leave it out",
    "use_api_socket": "mount what the container needs by name",
    "post_start": "put it into the image",
    "pre_stop": "put it into the image",
    "models": "name the model in the command",
    "links": "join a network, where services find each other by name",
    "external_links": "join a network",
    "blkio_config": "leave it out",
    "label_file": "write the labels out",
}
_SILENT = frozenset(
    (
        "image", "build", "container_name", "command", "entrypoint", "environment", "env_file", "ports", "volumes",
        "extra_hosts", "ulimits", "logging", "stop_grace_period", "healthcheck", "gpus", "deploy", "network_mode",
        "networks", "depends_on", "profiles", "pull_policy", "scale", "develop", "attach", "cpu_percent", "cpu_count",
    )
)  # fmt: skip

Environment = dict[str, str | None]
"""Variables of a service; None has no value anywhere."""


def launch(name: str, service: Mapping[str, Any], project: Project) -> ContainerLaunch:
    """The container. Raises BadCompose, UnknownVariable, UnknownDirectory, CliRejects."""
    _check_keys(name, service)
    interpolation = Interpolation(project.context)
    service = interpolation.value(service)
    environment = _environment(service, interpolation)
    interpolation.check()
    given = _words(name, service, project, environment)
    made = launch_of(cli.parse(given, project.context), project.context)
    body = _completed(made.body, service, network.endpoints(name, service, project))
    warnings = (*_warnings(name, service, project, environment), *made.warnings)
    return replace(made, name=_container_name(name, service, project), body=body, warnings=warnings, tool="compose")


def _check_keys(name: str, service: Mapping[str, Any]) -> None:
    known = _SILENT | flags.TEXTS.keys() | flags.SWITCHES.keys() | flags.LISTS.keys() | flags.MAPS.keys()
    for key in service:
        if key in _REFUSED:
            why = f"{key} has no place in a container body"
            raise BadCompose(where=f"service {name}", why=why, how=_REFUSED[key])
        if key not in known and not str(key).startswith("x-"):
            raise BadCompose(where=f"service {name}", why=f"{key} is no key that is known", how="correct or remove it")


def _words(name: str, service: Mapping[str, Any], project: Project, environment: Environment) -> list[str]:
    """The service as `docker create` would be told it."""
    return [
        *("docker", "create"),
        *flags.flags(service),
        *volumes.flags(service, project),
        *(("--network", mode) if (mode := network.mode(name, service)) else ()),
        *(word for key, value in environment.items() if value is not None for word in ("-e", f"{key}={value}")),
        _image(name, service, project),
        *(words(service.get("command")) or []),
    ]


def _environment(service: Mapping[str, Any], interpolation: Interpolation) -> Environment:
    """Files first, then what the service states; a name alone takes the site's value."""
    out: dict[str, str | None] = {}
    for item in items(service.get("env_file"), "env_file"):
        out |= _from_file(item, interpolation)
    out |= pairs(service.get("environment"), "environment")
    return {name: interpolation.context.lookup(name) if value is None else value for name, value in out.items()}


def _from_file(item: Any, interpolation: Interpolation) -> Environment:
    path = item.get("path") if isinstance(item, Mapping) else item
    named = text(path, "env_file")
    try:
        content = interpolation.context.text_of(named, "env_file")
    except FileUnread:
        if isinstance(item, Mapping) and item.get("required") is False:
            return {}
        raise
    return entries(content, named, interpolation)


def _image(name: str, service: Mapping[str, Any], project: Project) -> str:
    if service.get("image"):
        return text(service["image"], "image")
    if not service.get("build"):
        raise BadCompose(where=f"service {name}", why="it names no image and builds none", how="add image: …")
    return f"{project.name}-{name}".lower()


def _container_name(name: str, service: Mapping[str, Any], project: Project) -> str:
    given = text(service.get("container_name"), "container_name")
    return given or f"{project.name}-{name}-1"


def _completed(body: Mapping[str, Any], service: Mapping[str, Any], endpoints: Mapping[str, Any]) -> dict[str, Any]:
    """What no flag says as compose does: entrypoints of several words, checks without a shell, GPUs, networks."""
    host = dict(body["HostConfig"])
    host["DeviceRequests"] = [*gpus.requests(service), *(host["DeviceRequests"] or [])] or None
    out = {**body, "Entrypoint": words(service.get("entrypoint")), "HostConfig": host}
    if (check := health.check(service.get("healthcheck"))) is not None:
        out["Healthcheck"] = check
    if endpoints:
        host["NetworkMode"] = next(iter(endpoints))
        out["NetworkingConfig"] = {"EndpointsConfig": dict(endpoints)}
    return out


def _warnings(
    name: str, service: Mapping[str, Any], project: Project, environment: Environment
) -> Iterator[LaunchWarning]:
    if service.get("build"):
        image = _image(name, service, project)
        said = f"{name} is built from the project's own files: its image {image} is what that makes"
        yield LaunchWarning("compose.build", said, f"docker compose build {name}")
    yield from network.warnings(name, service, project)
    yield from _undeclared(service, project)
    for volume in volumes.named(service):
        if how := project.made_specially(volume):
            made = project.volume(volume)
            told = f"compose makes the volume {made} with {how}, and Docker an empty one where it is not there yet"
            yield LaunchWarning("compose.volume", f"{told}: docker volume create {how} {made}, once and before")
    for variable in (key for key, value in environment.items() if value is None):
        said = f"{variable} takes its value from the caller, where it has none: compose leaves it out"
        yield LaunchWarning("env.no_value", said, f"{variable}=VALUE among the variables")
    if others := _others(service.get("depends_on")):
        yield LaunchWarning("compose.depends_on", f"{name} expects {', '.join(others)} to run beside it")
    copies = service.get("scale") or (service.get("deploy") or {}).get("replicas")
    if copies not in (None, 1):
        yield LaunchWarning("compose.replicas", f"{name} is meant to run {copies} times; this is one of them")


def _undeclared(service: Mapping[str, Any], project: Project) -> Iterator[LaunchWarning]:
    networks = network.joined(service, project)
    for kind, names in (("networks", networks), ("volumes", volumes.named(service))):
        for name in project.undeclared(kind, names):
            said = (
                f"the file declares no {name} among its {kind}: the file that includes it does, or compose refuses it"
            )
            yield LaunchWarning("compose.undeclared", said, f"{name}: below {kind}: at the top of the file")


def _others(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [str(key) for key in value]
    return [text(item) for item in items(value, "depends_on")]
