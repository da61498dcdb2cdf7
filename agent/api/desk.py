"""The port from HTTP to the daemon: what a request may ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from agent.action.drills import Drill
from agent.action.operation import Operation
from agent.action.store import Event
from agent.api.caller import Caller
from agent.api.wanted import Terms, Wanted
from agent.metrics.board import Board
from agent.metrics.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which lines of an engine's log: the last `tail` (None all), since seconds of the epoch, and then as they come;
    with `times`, each after the seconds of the epoch when it was written, or `-`."""

    tail: int | None = None
    since: float | None = None
    follow: bool = False
    times: bool = False


class Desk(Protocol):
    """The daemon, as the API sees it."""

    @property
    def boards(self) -> Mapping[str, Board]: ...

    def ready(self) -> str | None:
        """None when every deployment has a loop that turns; else why not."""
        ...

    def metrics(self) -> bytes:
        """The exposition of everything last seen; no I/O."""
        ...

    def snapshot(self) -> Snapshot:
        """Everything last seen, of the host too; no I/O. Its boards are the fleet's own: people are shown `boards`."""
        ...

    async def plan(self, wanted: Wanted) -> Mapping[str, Any]: ...

    async def steps(self, wanted: Wanted, replaces: str | None) -> tuple[str, ...]:
        """What a deploy of it, in the place of another one, would do now; a sentence a step."""
        ...

    async def deploy(self, wanted: Wanted, terms: Terms, by: Caller) -> Operation: ...

    async def upgrade(self, slug: str, now: bool, by: Caller) -> Operation:
        """In the site's next maintenance window, unless `now`."""
        ...

    async def rollback(self, slug: str, plan_id: str | None, by: Caller) -> Operation: ...

    async def ask(self, slug: str, verb: str, options: Mapping[str, Any], by: Caller) -> Operation:
        """stop, start, restart, remove."""
        ...

    async def supervise(self, slug: str, verb: str, by: Caller) -> Board:
        """pause, observe, resume: the deployment as it is then."""
        ...

    async def verify(self, slug: str, quick: bool, points: tuple[str, ...], by: Caller) -> Operation: ...

    async def drill(self, slug: str, drill: Drill, by: Caller) -> Operation:
        """Make a fault for real on an expendable deployment."""
        ...

    async def verification(self, slug: str, full: bool) -> Mapping[str, Any]:
        """The last report of a deployment, or the last of all points with all repeats."""
        ...

    async def cancel(self, operation_id: str, by: Caller) -> Operation:
        """End a verification or a drill; nothing of it runs on."""
        ...

    async def operation(self, operation_id: str) -> Operation: ...

    async def operations(self, slug: str | None) -> tuple[Operation, ...]: ...

    async def past_events(self, slug: str | None, after: int, limit: int) -> tuple[Event, ...]: ...

    def events(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[Event]]]:
        """Gives the next event each time it is called."""
        ...

    def changes(self) -> AbstractAsyncContextManager[Callable[[float], Awaitable[bool]]]:
        """Waits for any change of a board."""
        ...

    def logs(self, slug: str, request: LogRequest) -> AsyncIterator[str]: ...

    async def deployed_plan(self, slug: str) -> Mapping[str, Any]: ...

    async def history(self, slug: str) -> tuple[Mapping[str, Any], ...]:
        """The plans of a deployment: `plan_id`, `at` (seconds of the epoch), `current`."""
        ...

    async def incidents(self, slug: str | None) -> tuple[Mapping[str, Any], ...]: ...

    async def incident(self, incident_id: str) -> Mapping[str, Any]: ...

    async def incident_archive(self, incident_id: str) -> bytes: ...

    async def host(self) -> Mapping[str, Any]: ...

    async def test_notifications(self) -> tuple[tuple[str, str | None], ...]:
        """A test message to every service: its name, and why it did not take it."""
        ...
