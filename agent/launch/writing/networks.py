"""Networks, ports, names and addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent.launch.writing.record import record


def flags(body: Mapping[str, Any], host: Mapping[str, Any]) -> Iterator[str]:
    """`--network` and its companions, `-p`, `--expose`, `--dns`, `--add-host`, `--link`."""
    yield from _networks(body, host)
    yield from _ports(body, host)
    for key, flag in _LISTS.items():
        for value in host.get(key) or []:
            yield from (flag, str(value))


_LISTS = {
    "Dns": "--dns",
    "DnsOptions": "--dns-option",
    "DnsSearch": "--dns-search",
    "ExtraHosts": "--add-host",
    "Links": "--link",
}


def _networks(body: Mapping[str, Any], host: Mapping[str, Any]) -> Iterator[str]:
    endpoints: Mapping[str, Any] = (body.get("NetworkingConfig") or {}).get("EndpointsConfig") or {}
    first = host.get("NetworkMode") or "default"
    # With nothing said the CLI sends an endpoint for "default"; said aloud, it sends none.
    if first != "default" or "default" not in endpoints:
        yield from ("--network", first)
    yield from _first(endpoints.get(first) or {})
    for name, endpoint in endpoints.items():
        if name != first:
            yield from ("--network", _long(name, endpoint))


def _first(endpoint: Mapping[str, Any]) -> Iterator[str]:
    for alias in endpoint.get("Aliases") or []:
        yield from ("--network-alias", alias)
    addresses = endpoint.get("IPAMConfig") or {}
    if addresses.get("IPv4Address"):
        yield from ("--ip", addresses["IPv4Address"])
    if addresses.get("IPv6Address"):
        yield from ("--ip6", addresses["IPv6Address"])
    for address in addresses.get("LinkLocalIPs") or []:
        yield from ("--link-local-ip", address)
    if endpoint.get("MacAddress"):
        yield from ("--mac-address", endpoint["MacAddress"])


def _long(name: str, endpoint: Mapping[str, Any]) -> str:
    addresses = endpoint.get("IPAMConfig") or {}
    fields = [f"name={name}"]
    fields += [f"alias={alias}" for alias in endpoint.get("Aliases") or []]
    fields += [f"ip={addresses['IPv4Address']}"] if addresses.get("IPv4Address") else []
    fields += [f"ip6={addresses['IPv6Address']}"] if addresses.get("IPv6Address") else []
    fields += [f"link-local-ip={address}" for address in addresses.get("LinkLocalIPs") or []]
    fields += [f"mac-address={endpoint['MacAddress']}"] if endpoint.get("MacAddress") else []
    fields += [f"driver-opt={key}={value}" for key, value in (endpoint.get("DriverOpts") or {}).items()]
    fields += [f"gw-priority={endpoint['GwPriority']}"] if endpoint.get("GwPriority") else []
    return name if len(fields) == 1 else record(fields)


def _ports(body: Mapping[str, Any], host: Mapping[str, Any]) -> Iterator[str]:
    bindings: Mapping[str, Any] = host.get("PortBindings") or {}
    for port, places in bindings.items():
        for place in places or [{}]:
            yield from ("-p", _published(port, place))
    for port in body.get("ExposedPorts") or {}:
        if port not in bindings:
            yield from ("--expose", port.removesuffix("/tcp"))


def _published(port: str, place: Mapping[str, Any]) -> str:
    address, outer = place.get("HostIp") or "", place.get("HostPort") or ""
    inner = port.removesuffix("/tcp")
    if address:
        return f"[{address}]:{outer}:{inner}" if ":" in address else f"{address}:{outer}:{inner}"
    return f"{outer}:{inner}" if outer else inner
