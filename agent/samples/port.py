"""What a look at an engine asks of the outside, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.samples.model import Canary, Health, Missed


@dataclass(frozen=True, slots=True)
class Request:
    """One call of an engine's own API, as data."""

    path: str
    method: str = "GET"
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an engine listens, as the agent reaches it, and the key that it asks for."""

    host: str
    port: int
    api_key: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """The base URL; an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class Probe(Protocol):
    """HTTP to an engine. Raises for nothing that an engine does; each call has a deadline and closes its connection."""

    async def metrics(self, at: Endpoint, path: str, timeout_s: float) -> str | Missed:
        """The metrics text."""
        ...

    async def health(self, at: Endpoint, path: str, timeout_s: float) -> Health | Missed:
        """Status and time of the health endpoint."""
        ...

    async def canary(self, at: Endpoint, ask: Request, timeout_s: float) -> Canary:
        """One token by `ask`; true only where the answer carries one."""
        ...

    async def call(self, at: Endpoint, ask: Request, timeout_s: float) -> int | Missed:
        """The status of any other call (abort, pause, resume)."""
        ...

    async def close(self) -> None: ...
