"""Networks: `--network` in both notations, and the endpoint flags that belong to the first one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from agent.launch import golang
from agent.launch.flags.kinds import Given, refuse
from agent.launch.flags.ports import is_address
from agent.launch.golang import SPACES, Malformed
from agent.launch.model import Context

_LONG = re.compile(r"\w+=\w+(,\w+=\w+)*", re.ASCII)
_DOMAIN = re.compile(
    r"(:?(:?[a-zA-Z0-9]|(:?[a-zA-Z0-9][a-zA-Z0-9\-]*[a-zA-Z0-9]))"
    r"(:?\.(:?[a-zA-Z0-9]|(:?[a-zA-Z0-9][a-zA-Z0-9\-]*[a-zA-Z0-9])))*)\.?\s*"
)
_MAC = re.compile(
    r"(?:[0-9a-fA-F]{2}([:-])[0-9a-fA-F]{2}(?:\1[0-9a-fA-F]{2}){4}(?:(?:\1[0-9a-fA-F]{2}){2}|(?:\1[0-9a-fA-F]{2}){14})?"
    r"|[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){2}(?:\.[0-9a-fA-F]{4}|(?:\.[0-9a-fA-F]{4}){7})?)"
)

ENDPOINT: dict[str, Any] = {
    "IPAMConfig": None, "Links": None, "Aliases": None, "MacAddress": "", "DriverOpts": None, "GwPriority": 0,
    "NetworkID": "", "EndpointID": "", "Gateway": "", "IPAddress": "", "IPPrefixLen": 0, "IPv6Gateway": "",
    "GlobalIPv6Address": "", "GlobalIPv6PrefixLen": 0, "DNSNames": None,
}  # fmt: skip
"""An endpoint with nothing chosen, as it is posted."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """One network and what was said about the container's place in it."""

    target: str
    aliases: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    driver_options: dict[str, str] = field(default_factory=dict)
    ipv4: str = ""
    ipv6: str = ""
    link_local: tuple[str, ...] = ()
    mac: str = ""
    priority: int = 0

    @property
    def user_defined(self) -> bool:
        """Whether it is a network somebody made."""
        return self.target not in ("default", "bridge", "host", "none") and not self.target.startswith("container:")


def read(value: str, _: Context) -> Attachment:
    """`name` or `name=…,alias=…,ip=…`. Raises Malformed."""
    if not _LONG.search(value):
        return Attachment(value)
    attachment = Attachment("")
    for text in golang.record(value):
        key, equals, content = text.lower().partition("=")
        refuse(not equals, f"invalid field {text}")
        attachment = _with(attachment, key.strip(SPACES), content.strip(SPACES))
    refuse(not attachment.target, "network name/id is not specified")
    return attachment


def _with(attachment: Attachment, key: str, value: str) -> Attachment:
    match key:
        case "name":
            return replace(attachment, target=value)
        case "alias":
            return replace(attachment, aliases=(*attachment.aliases, value))
        case "ip":
            return replace(attachment, ipv4=value)
        case "ip6":
            return replace(attachment, ipv6=value)
        case "mac-address":
            return replace(attachment, mac=value)
        case "link-local-ip":
            return replace(attachment, link_local=(*attachment.link_local, value))
        case "driver-opt":
            name, equals, content = value.partition("=")
            refuse(not equals, "invalid key value pair format in driver options")
            options = {**attachment.driver_options, name.strip(SPACES): content.strip(SPACES)}
            return replace(attachment, driver_options=options)
        case "gw-priority":
            return replace(attachment, priority=_priority(value))
    raise Malformed(f"invalid field key {key}")


def _priority(value: str) -> int:
    try:
        return golang.integer(value, base=10)
    except Malformed as error:
        raise Malformed(f"invalid gw-priority ({value}): invalid syntax") from error


def endpoints(given: Given) -> dict[str, Any]:
    """`NetworkingConfig.EndpointsConfig`. Raises Malformed."""
    chosen: list[Attachment] = given.list("network")
    attachments = chosen or [Attachment("default")]
    attachments = [_first(attachments[0], given), *attachments[1:]]
    out: dict[str, Any] = {}
    for attachment in attachments:
        endpoint = endpoint_of(attachment)
        refuse(attachment.target in out, f'network "{attachment.target}" is specified multiple times')
        # A single network with nothing said about it is left to the daemon, for old engines' sake.
        if len(chosen) != 1 or endpoint != ENDPOINT:
            out[attachment.target] = endpoint
    kinds = {attachment.user_defined for attachment in chosen}
    refuse(len(kinds) > 1, "conflicting options: cannot attach both user-defined and non-user-defined network-modes")
    return out


_FIRST = (
    ("aliases", "network-alias", "--network-alias and per-network alias"),
    ("links", "link", "--link and per-network links"),
    ("ipv4", "ip", "--ip and per-network IPv4 address"),
    ("ipv6", "ip6", "--ip6 and per-network IPv6 address"),
    ("mac", "mac-address", "--mac-address and per-network MAC address"),
    ("link_local", "link-local-ip", "--link-local-ip and per-network link-local IP addresses"),
)


def _first(attachment: Attachment, given: Given) -> Attachment:
    """The first network takes the endpoint flags of the whole command."""
    changes: dict[str, Any] = {}
    for name, flag, words in _FIRST:
        value = given[flag]
        refuse(bool(getattr(attachment, name) and value), f"conflicting options: cannot specify both {words}")
        if value and (name != "links" or attachment.user_defined):
            changes[name] = tuple(value) if isinstance(value, list) else value
    return replace(attachment, **changes)


def endpoint_of(attachment: Attachment) -> dict[str, Any]:
    """The endpoint as it is posted. Raises Malformed."""
    refuse(not attachment.target.strip(SPACES), "no name set for network")
    only = "are only supported for user-defined networks"
    refuse(bool(attachment.aliases) and not attachment.user_defined, f"network-scoped aliases {only}")
    refuse(bool(attachment.links) and not attachment.user_defined, f"links {only}")
    refuse(bool(attachment.mac) and not _MAC.fullmatch(attachment.mac), f"{attachment.mac} is not a valid mac address")
    addresses = {
        "IPv4Address": attachment.ipv4,
        "IPv6Address": attachment.ipv6,
        "LinkLocalIPs": list(attachment.link_local),
    }
    return {
        **ENDPOINT,
        "IPAMConfig": {key: value for key, value in addresses.items() if value} or None,
        "Links": list(attachment.links) or None,
        "Aliases": list(attachment.aliases) or None,
        "MacAddress": attachment.mac,
        "DriverOpts": attachment.driver_options or None,
        "GwPriority": attachment.priority,
    }


def mode(given: Given) -> str:
    """`HostConfig.NetworkMode`."""
    chosen: list[Attachment] = given.list("network")
    return chosen[0].target if chosen else "default"


def link(value: str, _: Context) -> str:
    """`container[:alias]`. Raises Malformed."""
    refuse(not value, "empty string specified for links")
    refuse(value.count(":") > 1, f"bad format for links: {value}")
    return value


def address(value: str, _: Context) -> str:
    """`--dns`: an IP address. Raises Malformed."""
    text = value.strip(SPACES)
    refuse(not is_address(text), f"IP address is not correctly formatted: {value}")
    return text


def search_domain(value: str, _: Context) -> str:
    """`--dns-search`: a domain, or `.` for none. Raises Malformed."""
    if (text := value.strip(" ")) == ".":
        return text
    found = _DOMAIN.fullmatch(text) if len(text) < 1000 and re.search("[a-zA-Z]", text) else None
    whole = found is not None and len(found[1]) < 255
    refuse(not whole, f"{value} is not a valid domain")
    return found[1] if found else ""


def extra_host(value: str, _: Context) -> str:
    """`--add-host name:address`, sent with a colon whichever sign stood there. Raises Malformed."""
    name, sign, address_text = value.partition("=")
    if not sign:
        name, sign, address_text = value.partition(":")
    refuse(not sign or not name or ":" in name, f'bad format for add-host: "{value}"')
    if address_text == "host-gateway":
        return f"{name}:{address_text}"
    if len(address_text) > 2 and address_text[0] == "[" and address_text[-1] == "]":
        address_text = address_text[1:-1]
    refuse(not is_address(address_text.strip(SPACES)), f'invalid IP address in add-host: "{address_text}"')
    return f"{name}:{address_text}"
