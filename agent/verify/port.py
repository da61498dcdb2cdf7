"""What a measurement asks of the outside."""

from __future__ import annotations

from typing import Protocol

from agent.engines.model import Request
from agent.samples.port import Endpoint
from agent.verify.trace import Trace


class Streams(Protocol):
    """Streamed requests with the time of every piece. A cancelled call closes its connection at once."""

    async def trace(self, at: Endpoint, request: Request, timeout_s: float) -> Trace:
        """One request. What goes wrong is in `Trace.error`, never raised."""
        ...

    async def close(self) -> None: ...
