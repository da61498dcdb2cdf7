"""The daemon behind the API: plans through the planner, everything else through the fleet and the shelf."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from agent.action import commands
from agent.action.drills import Drill
from agent.action.operation import Operation
from agent.action.preview import preview
from agent.action.record import Supervision
from agent.action.seen import Seen
from agent.action.store import Event, Store
from agent.api.caller import Caller
from agent.api.desk import LogRequest
from agent.api.wanted import Terms, Wanted
from agent.clock import Clock
from agent.container.port import ContainerView, LogLine, Runtime
from agent.daemon.drill import Drills
from agent.daemon.fleet import Fleet
from agent.daemon.follow import on_and_on
from agent.daemon.loop import Loop
from agent.daemon.notify import Notifier
from agent.daemon.rounds import next_round
from agent.daemon.shown import ShownBoards, clean_event, clean_operation
from agent.daemon.verification import Verifier, VerifyTerms
from agent.errors import NotFound, Refused, UsageError
from agent.incident import shelf
from agent.incident.veil import Veil
from agent.metrics.board import Board, Verified
from agent.metrics.snapshot import Snapshot
from agent.plan.model import Plan
from agent.preflight.catalogue import known
from agent.settings.model import Settings
from agent.version import VERSION

log = structlog.get_logger()

MODES = {"pause": Supervision.PAUSED, "observe": Supervision.OBSERVE, "resume": Supervision.ACTIVE}
LOOK_S = 5.0
STALE_TICK_S = 300.0


class NoEarlierPlan(NotFound):
    """A rollback has nowhere to go."""

    message = "cannot roll {slug} back: {why}"


class PlanChanged(Refused):
    """What the person saw is not what would be deployed."""

    code = "plan.changed"
    message = "cannot deploy {slug}: the plan is now {now}, not {seen} that was shown"
    hint = "look at it again: agentctl plan {slug}"


@dataclass(frozen=True, slots=True)
class Offices:
    """Where the desk sends what it is asked."""

    fleet: Fleet
    store: Store
    clock: Clock
    runtimes: Mapping[str, Runtime]
    planned: Callable[[Wanted], Awaitable[Plan]]
    newest: Callable[[str, Mapping[str, str]], Awaitable[Plan]]
    """The plan of a recipe's newest revision, fetched now and pinned."""
    plan_json: Callable[[Plan], Mapping[str, Any]]
    exposition: Callable[[], bytes]
    snapshot: Callable[[], Snapshot]
    host: Callable[[], Awaitable[Mapping[str, Any]]]
    settings: Callable[[], Settings]
    """Those in force now."""
    site: Callable[[], Mapping[str, Any]]
    """The settings in force: which files, and what of them is not."""
    veil: Veil
    keep_document: Callable[[bytes], Awaitable[None]]
    """Keeps a recipe that a client sent: it is in no source."""
    verifier: Verifier
    drills: Drills
    notifier: Notifier
    incidents: Path
    logs: Path


class DaemonDesk:
    """Implements the API's port."""

    def __init__(self, offices: Offices) -> None:
        self._to = offices
        self._shown = ShownBoards(offices.fleet.boards, offices.veil, self._verified)

    @property
    def boards(self) -> Mapping[str, Board]:
        return self._shown

    def ready(self) -> str | None:
        return self._to.fleet.turning()

    def metrics(self) -> bytes:
        return self._to.exposition()

    def snapshot(self) -> Snapshot:
        return self._to.snapshot()

    async def plan(self, wanted: Wanted) -> Mapping[str, Any]:
        return self._plan_json(await self._to.planned(wanted))

    def _plan_json(self, plan: Plan) -> Mapping[str, Any]:
        """As JSON, and without what its texts may quote of secrets."""
        cleaned: Mapping[str, Any] = self._to.veil.clean(self._to.plan_json(plan))
        return cleaned

    async def steps(self, wanted: Wanted, replaces: str | None) -> tuple[str, ...]:
        """What a deploy of it, in the place of another one, would do now."""
        plan = await self._to.planned(wanted)
        slug, now = plan.recipe.slug, self._to.clock.now()
        if replaces is not None:
            self._replaceable(slug, replaces)
        board = self.boards.get(slug)
        want = commands.Want(slug, plan.plan_id, replaces=replaces)
        record = commands.deploy(board.record if board else None, want, now.wall)
        container = board.sample.container if board and board.sample else None
        seen = Seen(
            now=now,
            watch=plan.watch,
            boot_id=record.boot_id,
            container=container if isinstance(container, ContainerView) else None,
            verdict=board.verdict if board else None,
            other=self._to.fleet.standing(replaces) if replaces is not None else "",
        )
        return preview(record, seen)

    def _replaceable(self, slug: str, other: str) -> None:
        """A deployment of another recipe, which is there."""
        if other == slug:
            raise UsageError(
                why=f"{slug} cannot replace itself", advice="a new plan of it takes over without --replace"
            )
        self._to.fleet.loop(other)

    async def deploy(self, wanted: Wanted, terms: Terms, by: Caller) -> Operation:
        known(terms.accepted)
        plan = await self._to.planned(wanted)
        slug = plan.recipe.slug
        if terms.plan_id is not None and terms.plan_id != plan.plan_id:
            raise PlanChanged(slug=slug, now=plan.plan_id, seen=terms.plan_id)
        if terms.replaces is not None:
            self._replaceable(slug, terms.replaces)
        mode = Supervision(self._to.settings().supervision)
        want = commands.Want(slug, plan.plan_id, terms.accepted, terms.replaces, dict(wanted.sets), mode)
        if wanted.document is not None:
            await self._to.keep_document(wanted.document)
        operation = await self._to.fleet.deploy(plan, want, by.text)
        details: dict[str, Any] = {"plan": plan.plan_id, "operation": operation.id}
        details |= {"accepted": list(terms.accepted)} if terms.accepted else {}
        details |= {"replaces": terms.replaces} if terms.replaces else {}
        await self._audit("deploy", slug, by, details)
        return operation

    async def upgrade(self, slug: str, now: bool, by: Caller) -> Operation:
        """To the newest revision of its recipe, with the values that it was deployed with; in a maintenance window
        where the site has some, unless it is to be now."""
        record = self._to.fleet.loop(slug).record
        plan = await self._to.newest(slug, record.sets)
        waits = not now and bool(self._to.fleet.window(self._to.clock.now().wall))
        want = commands.Want(slug, plan.plan_id, record.accepted, None, record.sets, at_window=waits)
        operation = await self._to.fleet.deploy(plan, want, by.text)
        await self._audit(
            "upgrade", slug, by, {"plan": plan.plan_id, "from": record.plan_id, "operation": operation.id}
        )
        return operation

    async def rollback(self, slug: str, plan_id: str | None, by: Caller) -> Operation:
        """To an earlier plan: the named one, else the one that served before the current."""
        record = self._to.fleet.loop(slug).record
        earlier = [one["plan_id"] for one in await self._to.store.history(slug) if one["plan_id"] != record.plan_id]
        target = plan_id or record.before
        if target is None or target not in earlier:
            raise no_earlier_plan(slug, record.plan_id, plan_id, earlier)
        want = commands.Want(slug, target, record.accepted, None, record.sets)
        operation = await self._to.fleet.deploy(await self._to.fleet.plan_of(target), want, by.text)
        details = {"plan": target, "from": record.plan_id, "operation": operation.id}
        await self._audit("rollback", slug, by, details)
        return operation

    async def supervise(self, slug: str, verb: str, by: Caller) -> Board:
        record = await self._to.fleet.supervise(slug, MODES[verb])
        await self._audit(verb, slug, by, {})
        loop, now = self._to.fleet.loop(slug), self._to.clock.now().wall
        await self._looked(loop)
        board = self._to.fleet.boards.get(slug) or Board(record, loop.plan, loop.plan.runtime, now)
        return self._shown.of(replace(board, record=loop.record))

    def _verified(self, slug: str) -> Verified:
        following = next_round(self._to.settings(), self._to.clock.now().wall)
        return replace(self._to.verifier.last(slug), following=following)

    async def _looked(self, loop: Loop) -> None:
        """Wait for the look that a wish called for: the step before it tells what was done until then. One that takes
        longer is not waited for, and the step is not known yet."""
        until = self._to.clock.now().mono + LOOK_S
        async with self._to.fleet.changes() as changed:
            while not loop.record.step and not loop.gone and (left := until - self._to.clock.now().mono) > 0:
                await changed(left)

    async def ask(self, slug: str, verb: str, options: Mapping[str, Any], by: Caller) -> Operation:
        now, drain = self._to.clock.now().wall, options.get("drain_s")
        wishes: dict[str, Callable[[Any], Any]] = {
            "stop": lambda record: commands.stop(record, drain, now),
            "start": lambda record: commands.start(record, bool(options.get("force")), now),
            "restart": lambda record: commands.restart(record, drain, now),
            "remove": lambda record: commands.remove(record, drain, now),
        }
        if verb == "restart" and options.get("in_window") and self._to.fleet.window(now):
            operation = await self._to.fleet.restart_later(slug, by.text)
            await self._audit(verb, slug, by, {"in_window": True, "operation": operation.id})
            return operation
        if verb == "start" and options.get("force"):
            self._to.fleet.forgive(self._to.fleet.loop(slug).plan.gpus)
        operation = await self._to.fleet.ask(slug, verb, wishes[verb], by.text)
        given = {key: value for key, value in options.items() if value}
        await self._audit(verb, slug, by, given | {"operation": operation.id})
        return operation

    async def _audit(self, what: str, slug: str, by: Caller, details: Mapping[str, Any]) -> None:
        """Who changed what, from where."""
        log.info("asked", what=what, recipe=slug, by=by.text, **details)
        data = {"what": what, **details, "by": by.to_json()}
        event = Event(self._to.clock.now().wall, slug, "asked", f"{what} asked by {by.text}", data)
        self._to.fleet.told(await self._to.store.add_event(event))

    async def verify(self, slug: str, quick: bool, points: tuple[str, ...], by: Caller) -> Operation:
        operation = await self._to.verifier.start(slug, VerifyTerms(quick, points), by.text)
        await self._audit("verify", slug, by, {"quick": quick, "operation": operation.id})
        return operation

    async def drill(self, slug: str, drill: Drill, by: Caller) -> Operation:
        operation = await self._to.drills.start(slug, drill, by.text)
        await self._audit("drill", slug, by, {"kind": drill.value, "operation": operation.id})
        return operation

    async def verification(self, slug: str, full: bool) -> Mapping[str, Any]:
        return await self._to.verifier.report(slug, full=full)

    async def cancel(self, operation_id: str, by: Caller) -> Operation:
        drills, verifier = self._to.drills, self._to.verifier
        operation = await (drills if drills.holds(operation_id) else verifier).cancel(operation_id)
        await self._audit("cancel", operation.slug, by, {"operation": operation_id})
        return operation

    async def operation(self, operation_id: str) -> Operation:
        found = await self._to.store.operation(operation_id)
        if found is None:
            raise NotFound(what="operation", name=operation_id, why="it was never begun, or it is too long ago")
        return clean_operation(found, self._to.veil)

    async def operations(self, slug: str | None) -> tuple[Operation, ...]:
        found = await self._to.store.operations(slug)
        return tuple(clean_operation(one, self._to.veil) for one in found)

    async def past_events(self, slug: str | None, after: int, limit: int) -> tuple[Event, ...]:
        found = await self._to.store.events(slug, after=after, limit=limit)
        return tuple(clean_event(one, self._to.veil) for one in found)

    @asynccontextmanager
    async def events(self) -> AsyncIterator[Callable[[], Awaitable[Event]]]:
        async with self._to.fleet.events() as queue:

            async def following() -> Event:
                return clean_event(await queue.get(), self._to.veil)

            yield following

    def changes(self) -> AbstractAsyncContextManager[Callable[[float], Awaitable[bool]]]:
        return self._to.fleet.changes()

    async def logs(self, slug: str, request: LogRequest) -> AsyncIterator[str]:
        """Of the container that is there, else what was saved of the last one; engines print what they were given."""
        lines = self._lines(slug, request)
        try:
            async for line in lines:
                text = self._to.veil.text(line.text)
                yield f"{'-' if line.at is None else repr(line.at)} {text}" if request.times else text
        finally:
            await lines.aclose()

    async def _lines(self, slug: str, request: LogRequest) -> AsyncGenerator[LogLine, None]:
        loop = self._to.fleet.loop(slug)
        container = loop.record.container
        runtime = self._to.runtimes[loop.plan.runtime]
        if container is None or await runtime.view(container) is None:
            going_on = request.follow and request.since is not None  # somebody who has read the log that was saved
            for text in () if going_on else await asyncio.to_thread(saved_lines, self._to.logs / slug, request.tail):
                yield LogLine(text)
            return
        since = request.since
        if request.tail is not None or not request.follow:
            asked = self._to.clock.now().wall
            count = request.tail if request.tail is not None else 100_000
            lines = await runtime.tail(container, max(count, 1))  # one in any case, to know where to go on
            if request.follow:  # what has no time yet comes again when it has
                lines = tuple(line for line in lines if line.at is not None)
            for line in lines[-count:] if count else ():
                if since is None or line.at is None or line.at > since:
                    yield line
            since = next((line.at for line in reversed(lines) if line.at is not None), since or asked)
        if request.follow:
            async for line in on_and_on(runtime, container, since):
                yield line

    async def deployed_plan(self, slug: str) -> Mapping[str, Any]:
        return self._plan_json(self._to.fleet.loop(slug).plan)

    async def history(self, slug: str) -> tuple[Mapping[str, Any], ...]:
        record = self._to.fleet.loop(slug).record
        kept = [(one, one["plan_id"]) for one in await self._to.store.history(slug)]
        return tuple({**one, "current": name == record.plan_id, "served": name in record.served} for one, name in kept)

    async def incidents(self, slug: str | None) -> tuple[Mapping[str, Any], ...]:
        found = await asyncio.to_thread(shelf.incidents, self._to.incidents, slug)
        return tuple(self._to.veil.clean(one.to_json()) for one in found)

    async def incident(self, incident_id: str) -> Mapping[str, Any]:
        found = await asyncio.to_thread(shelf.show, self._to.incidents, incident_id)
        cleaned: Mapping[str, Any] = self._to.veil.clean(found)
        return cleaned

    async def test_notifications(self) -> tuple[tuple[str, str | None], ...]:
        return tuple(await self._to.notifier.test())

    async def incident_archive(self, incident_id: str) -> bytes:
        return await asyncio.to_thread(shelf.export, self._to.incidents, incident_id)

    async def host(self) -> Mapping[str, Any]:
        seen = await self._to.host()
        site: Mapping[str, Any] = self._to.veil.clean(self._to.site())
        return {**seen, "settings": site, "version": VERSION}


def no_earlier_plan(slug: str, current: str, named: str | None, earlier: list[str]) -> NoEarlierPlan:
    """Why there is nothing to go back to, and what could be named."""
    if not earlier:
        advice = f"agentctl upgrade {slug} takes the newest revision of its recipe"
        return NoEarlierPlan(slug=slug, why=f"{current} is the only plan that it has had", advice=advice)
    kept = f"kept are {', '.join(earlier)}"
    if named == current:
        why = f"it is on {current} now; {kept}"
    else:
        why = f"it has had no plan {named!r}; {kept}" if named else f"none before {current} became ready; {kept}"
    advice = f"name one of them: agentctl history {slug} shows when each was made"
    return NoEarlierPlan(slug=slug, why=why, advice=advice)


def saved_lines(folder: Path, tail: int | None) -> list[str]:
    """The saved log of the newest generation; nothing where none is kept."""
    files = sorted(folder.glob("generation-*.log")) if folder.is_dir() else []
    if not files:
        return []
    lines = files[-1].read_text(errors="replace").splitlines()
    return lines if tail is None else lines[max(0, len(lines) - tail) :]
