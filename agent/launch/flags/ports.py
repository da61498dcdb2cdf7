"""`-p` and `--expose`: addresses, ranges and protocols as the CLI reads them (go-connections' rules)."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from agent.launch import golang
from agent.launch.flags.kinds import refuse
from agent.launch.golang import Malformed

PROTOCOLS = ("tcp", "udp", "sctp")


@dataclass(frozen=True, slots=True)
class Published:
    """One port of the container (`8000/tcp`) and where it appears on the host; empty `port` lets Docker choose."""

    container: str
    address: str
    port: str


def is_address(text: str) -> bool:
    """Go's `net.ParseIP`: no zone, no leading zeros."""
    if "%" in text:
        return False
    try:
        IPv6Address(text) if ":" in text else IPv4Address(text)
    except AddressValueError:
        return False
    return True


def publish(spec: str) -> list[Published]:
    """Every port that one `-p` publishes. Raises Malformed."""
    spec = _short(spec) if "=" in spec else spec
    address, host, container = _thirds(spec)
    container, _, protocol = container.partition("/")
    protocol = protocol.split("/")[0] or "tcp"
    refuse(not container, f"no port specified: {spec}<empty>")
    address = _address(address)
    first, last = _range(container, "invalid containerPort")
    low, high = _range(host, "invalid hostPort") if host else (0, 0)
    if host and last - first != high - low:
        refuse(last != first, f"invalid ranges specified for container and host Ports: {container} and {host}")
    refuse(protocol.lower() not in PROTOCOLS, f"invalid proto: {protocol}")
    return [
        Published(f"{first + step}/{protocol.lower()}", address, _host_port(host, low, high, step, last - first))
        for step in range(last - first + 1)
    ]


def _short(spec: str) -> str:
    """`target=…,published=…,protocol=…` in the short notation."""
    given: dict[str, str] = {}
    for text in spec.split(","):
        name, equals, value = text.partition("=")
        refuse(not equals or not name, f"invalid publish opts format (should be name=value but got '{text}')")
        given[name] = value
    return f"{given.get('published', '')}:{given.get('target', '')}/{given.get('protocol', 'tcp')}"


def _thirds(spec: str) -> tuple[str, str, str]:
    parts = spec.split(":")
    if len(parts) < 3:
        return "", parts[0] if len(parts) == 2 else "", parts[-1]
    return ":".join(parts[:-2]), parts[-2], parts[-1]


def _address(text: str) -> str:
    if text.startswith("["):
        refuse(not text.endswith("]") or ":" in text.partition("]")[2], f"invalid IP address {text}")
        text = text[1:-1]
    refuse(bool(text) and not is_address(text), f"invalid IP address: {text}")
    return text


def _range(text: str, why: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    high = high.partition("-")[0]
    try:
        first = golang.unsigned(low, bits=16, base=10)
        last = golang.unsigned(high, bits=16, base=10) if dash else first
    except Malformed as error:
        raise Malformed(f"{why}: {text}") from error
    refuse(last < first, f"{why}: {text}")
    return first, last


def _host_port(host: str, low: int, high: int, step: int, span: int) -> str:
    if not host:
        return ""
    return f"{low}-{high}" if span == 0 and high != low else str(low + step)


def expose(spec: str) -> list[str]:
    """Every port that one `--expose` names. Raises Malformed."""
    refuse(":" in spec, f"invalid port format for --expose: {spec}")
    ports, _, protocol = spec.partition("/")
    protocol = protocol.split("/")[0] or "tcp"
    refuse(not ports, f"invalid range format for --expose: {spec}, error: empty string specified for ports")
    first, last = _range(ports, "invalid range format for --expose")
    return [f"{port}/{protocol}" for port in range(first, last + 1)]
