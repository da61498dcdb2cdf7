"""The port to what outlives the agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.action.operation import Operation
from agent.action.record import Deployment
from agent.errors import AgentError


class StoreTrouble(AgentError):
    """What should be remembered could not be written or read (a full disk, a broken one)."""

    code = "state.failed"
    retryable = True
    http_status = 503


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that the agent saw or did. `seq` grows by one; 0 before it is stored."""

    at: float
    slug: str
    kind: str
    """`state`, `step`, `wear`, `blind`, `operation`, `agent`."""
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    seq: int = 0


class Store(Protocol):
    """State on disk. A call that returned has been written; a kill in the middle of one leaves the old or the new.

    Raises `StoreTrouble` alone.
    """

    @property
    def rebuilt(self) -> str | None:
        """Why there was no state to be read although there had been some; None where all is well.

        Then the plans that were kept are there, and nothing else.
        """
        ...

    async def load(self) -> tuple[Deployment, ...]: ...

    async def save(self, record: Deployment) -> None: ...

    async def forget(self, slug: str) -> None: ...

    async def save_plan(self, slug: str, plan: Mapping[str, Any]) -> None:
        """Keep a plan, by its `plan_id`."""
        ...

    async def plan(self, plan_id: str) -> Mapping[str, Any] | None: ...

    async def history(self, slug: str) -> tuple[Mapping[str, Any], ...]:
        """When which plan was kept: `{"plan_id", "at"}`, oldest first."""
        ...

    async def save_operation(self, operation: Operation) -> None: ...

    async def operation(self, operation_id: str) -> Operation | None: ...

    async def operations(self, slug: str | None = None, *, open_only: bool = False) -> tuple[Operation, ...]: ...

    async def add_event(self, event: Event) -> Event: ...

    async def events(self, slug: str | None = None, *, after: int = 0, limit: int = 200) -> tuple[Event, ...]:
        """The newest `limit` events after `after`, oldest first."""
        ...

    async def learn(self, slug: str, figures: Mapping[str, float]) -> None:
        """Remember measured figures of this engine on this host (`start_s`, `prefill_tok_s`, …)."""
        ...

    async def learned(self, slug: str) -> Mapping[str, float]: ...

    async def close(self) -> None: ...
