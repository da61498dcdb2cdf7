"""Which ports of the host a plan will take (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agent.plan.model import Plan


@dataclass(frozen=True, slots=True)
class Published:
    """A TCP port on the host. `address` is empty for every address."""

    number: int
    address: str = ""

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.number}" if self.address else str(self.number)


def published(plan: Plan) -> tuple[Published, ...]:
    """The ports that `-p` names, or the engine's own where it runs on the host's network.

    A port that Docker picks itself (`-p 8000`) is free by construction and not in the list.
    """
    if plan.runtime != "docker" or on_host_network(plan):
        port = plan.engine.port if plan.engine else None
        return (Published(port, bind_address(plan)),) if port else ()
    return tuple(dict.fromkeys(bound(plan)))


def bound(plan: Plan) -> Iterator[Published]:
    host_config = (plan.container.body.get("HostConfig") or {}) if plan.container else {}
    for inside, bindings in (host_config.get("PortBindings") or {}).items():
        if not str(inside).endswith("/udp"):
            for binding in bindings or ():
                yield from spread(str(binding.get("HostPort") or ""), str(binding.get("HostIp") or ""))


def spread(port: str, address: str) -> Iterator[Published]:
    """`8095` is itself; a range (`8000-8010`) lets Docker pick, so that none of it is a must."""
    if port.isdecimal() and int(port) > 0:
        yield Published(int(port), "" if address in ("0.0.0.0", "::") else address)  # noqa: S104


def on_host_network(plan: Plan) -> bool:
    body = plan.container.body if plan.container else {}
    return (body.get("HostConfig") or {}).get("NetworkMode") == "host"


def bind_address(plan: Plan) -> str:
    host = plan.engine.host if plan.engine else None
    return "" if host in (None, "0.0.0.0", "::") else host or ""  # noqa: S104
