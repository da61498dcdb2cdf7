"""Where a service stands in the network: a mode, networks of the project, or nothing said at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.launch import golang
from agent.launch.compose.project import Project
from agent.launch.compose.values import items, pairs, text
from agent.launch.flags.networks import Attachment, endpoint_of
from agent.launch.golang import Malformed
from agent.launch.model import LaunchWarning
from agent.launch.refusal import BadCompose


def mode(name: str, service: Mapping[str, Any]) -> str:
    """`network_mode`, empty where the service joins networks instead. Raises BadCompose."""
    given = text(service.get("network_mode"), "network_mode")
    if given.startswith("service:"):
        how = "name the container: network_mode: container:NAME"
        raise BadCompose(where=f"service {name}", why=f"network_mode {given} is another service's network", how=how)
    return given


def endpoints(name: str, service: Mapping[str, Any], project: Project) -> dict[str, dict[str, Any]]:
    """The endpoints of the networks that the file names, by the networks' names on the engine. Raises BadCompose."""
    try:
        return {
            project.network(network): endpoint_of(_attachment(project.network(network), name, options))
            for network, options in joined(service, project).items()
        }
    except Malformed as error:
        raise BadCompose(where=f"service {name}", why=str(error), how="correct its networks") from error


def joined(service: Mapping[str, Any], project: Project) -> dict[str, Mapping[str, Any]]:
    """The networks that the file names for the service, with what it says of each."""
    if service.get("network_mode"):
        return {}
    value = service.get("networks")
    if isinstance(value, Mapping):
        return {str(name): options if isinstance(options, Mapping) else {} for name, options in value.items()}
    named: dict[str, Mapping[str, Any]] = {text(item, "networks"): {} for item in items(value, "networks")}
    return named if named or not project.states_default_network() else {"default": {}}


_KNOWN = frozenset(
    {
        *("aliases", "ipv4_address", "ipv6_address", "link_local_ips"),
        *("mac_address", "driver_opts", "gw_priority", "priority"),
    }
)


def _attachment(network: str, service: str, options: Mapping[str, Any]) -> Attachment:
    for key in options:
        if key not in _KNOWN:
            raise BadCompose(where=f"networks.{key}", why="no engine knows it", how="leave it out")
    aliases = [service, *(text(item, "aliases") for item in items(options.get("aliases"), "aliases"))]
    return Attachment(
        network,
        aliases=tuple(dict.fromkeys(aliases)),
        driver_options={key: value or "" for key, value in pairs(options.get("driver_opts"), "driver_opts").items()},
        ipv4=text(options.get("ipv4_address"), "ipv4_address"),
        ipv6=text(options.get("ipv6_address"), "ipv6_address"),
        link_local=tuple(text(item) for item in items(options.get("link_local_ips"), "link_local_ips")),
        mac=text(options.get("mac_address"), "mac_address"),
        priority=golang.integer(text(options.get("gw_priority")) or "0", base=10),
    )


def warnings(name: str, service: Mapping[str, Any], project: Project) -> list[LaunchWarning]:
    """What is different from a container that compose itself starts."""
    if service.get("network_mode"):
        return []
    networks = [project.network(network) for network in joined(service, project)]
    if not networks:
        said = f"compose would put {name} on a network of the project, where other services find it by that name"
        return [LaunchWarning("compose.network", f"{said}; here it is on Docker's own bridge")]
    commands = " && ".join(f"docker network create {network}" for network in networks)
    said = f"{name} joins {', '.join(networks)}, which compose makes and Docker does not"
    return [LaunchWarning("compose.network_exists", said, commands)]
