"""What a look at an engine asks of the outside, over HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from agent.engines.model import Request
from agent.samples.model import Health, Missed


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an engine listens, as the agent reaches it, and the key that it asks for."""

    host: str
    port: int
    api_key: str | None = field(default=None, repr=False)
    tls: bool = False

    @property
    def url(self) -> str:
        """The base URL; an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine answered, and how long it took."""

    status: int
    text: str
    seconds: float


class Probe(Protocol):
    """HTTP to an engine. Raises for nothing that an engine does; each call has a deadline and closes its connection."""

    async def ask(self, at: Endpoint, request: Request, timeout_s: float) -> Answer | Missed:
        """Any request of an engine's own API."""
        ...

    async def metrics(self, at: Endpoint, path: str, timeout_s: float) -> str | Missed:
        """The metrics text; anything but a 200 is a miss."""
        ...

    async def health(self, at: Endpoint, path: str, timeout_s: float) -> Health | Missed:
        """Status and time of the health endpoint."""
        ...

    async def close(self) -> None: ...
