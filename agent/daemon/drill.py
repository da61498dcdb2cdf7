"""Drills: a fault is made for real on an engine that is marked as expendable, and what the agent does is timed."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import structlog

from agent.action import commands
from agent.action.drills import Drill, Mark, core_of, marks_of, outcome
from agent.action.operation import DRILL, RESTART, Operation, end, fail
from agent.action.record import Desired, State, Supervision
from agent.action.store import Store
from agent.clock import Clock
from agent.container.port import ContainerView
from agent.daemon.fleet import Fleet
from agent.daemon.guard import attempt
from agent.daemon.loop import Loop
from agent.engines.model import Request
from agent.engines.registry import dialect_of
from agent.errors import AgentError, NotFound, Refused
from agent.host.port import Processes
from agent.host.process import Process
from agent.host.reading import Unknown
from agent.samples.port import Endpoint, Probe

log = structlog.get_logger()
SERVES = frozenset({State.READY, State.BUSY})
LONGEST_S = 7200.0
LOOK_S = 1.0
ANSWER_TOKENS = 100_000
"""More than any engine makes before it is stopped or hung up on; it cuts that down to what its context holds."""
UNDER_WAY_S = 30.0
"""How long a request may take until the engine says that it runs."""
SLOW_S = 20.0
"""How long a start is held still; never for so long that it would be right to restart it."""


class NotDrilled(Refused):
    """There is nothing to rehearse on."""

    code = "drill.refused"
    message = "cannot rehearse {kind} on {slug}: {why}"
    hint = "agentctl status {slug} and agentctl logs {slug} show what its engine does"


@dataclass(frozen=True, slots=True)
class Means:
    """Where drills work. `send(pid, start_ticks, signal)`: whether that very process was there to get it."""

    fleet: Fleet
    store: Store
    clock: Clock
    probe: Probe
    processes: Processes
    send: Callable[[int, int, signal.Signals], bool]


@dataclass(slots=True)
class Rehearsal:
    """One that is under way."""

    drill: Drill
    loop: Loop
    operation: Operation
    began: float
    after: int
    """Events up to this one were before it."""
    own: list[Mark] = field(default_factory=list)
    stopped: Process | None = None
    client: asyncio.Task[object] | None = None


class Drills:
    """Runs them, one a deployment; whatever way one ends, nothing that it stopped stays stopped."""

    def __init__(self, means: Means) -> None:
        self._with = means
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._slugs: dict[str, str] = {}

    @property
    def under_way(self) -> frozenset[str]:
        """Deployments that are drilled."""
        return frozenset(self._slugs.values())

    async def recover(self) -> None:
        """What ran when the agent ended has ended with it; supervision deals with what it left."""
        now = self._with.clock.now().wall
        for operation in await self._with.store.operations(open_only=True):
            if operation.kind == DRILL:
                await self._with.store.save_operation(fail(operation, "the agent was restarted meanwhile", now))

    async def start(self, slug: str, drill: Drill, by: str) -> Operation:
        """Begin one. Raises NotDrilled where the engine is not meant for it, or not in a state for it."""
        loop = self._with.fleet.loop(slug)
        if (found := unfit(loop, slug in self._slugs.values())) is not None:
            why, advice = found
            raise NotDrilled(slug=slug, kind=drill.value, why=why, advice=advice)
        now = self._with.clock.now().wall
        operation = Operation(id=secrets.token_hex(8), slug=slug, kind=DRILL, created=now, by=by)
        await self._with.store.save_operation(operation)
        events = await self._with.store.events(slug, limit=1)
        rehearsal = Rehearsal(drill, loop, operation, now, events[-1].seq if events else 0)
        self._slugs[operation.id] = slug
        self._tasks[operation.id] = asyncio.create_task(self._run(rehearsal), name=f"drill {slug}")
        return operation

    def holds(self, operation_id: str) -> bool:
        return operation_id in self._tasks

    async def cancel(self, operation_id: str) -> Operation:
        """End one: what it stopped goes on, its client hangs up."""
        task = self._tasks.get(operation_id)
        if task is None:
            raise NotFound(what="running drill", name=operation_id, why="it is over, or it never was one")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        found = await self._with.store.operation(operation_id)
        if found is None:
            raise NotFound(what="operation", name=operation_id, why="it is too long ago")
        return found

    async def close(self) -> None:
        """End all of them."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, one: Rehearsal) -> None:
        try:
            ended = await attempt(f"drill {one.operation.slug}", self._rehearse(one))
            if ended is not None:
                await self._save(fail(one.operation, ended, self._now()), one)
        except asyncio.CancelledError:
            cancelled = fail(one.operation, "it was cancelled; what it stopped goes on", self._now())
            await asyncio.shield(self._save(cancelled, one))  # its last word is said, however often it is cancelled
            raise
        finally:
            self._heal(one)
            self._tasks.pop(one.operation.id, None)
            self._slugs.pop(one.operation.id, None)

    async def _rehearse(self, one: Rehearsal) -> None:
        """Make the fault, then tell what becomes of it until it is over."""
        async with asyncio.timeout(LONGEST_S), self._with.fleet.changes() as changed:
            await self._make(one)
            while (ended := outcome(one.drill, await self._tell(one))) is None:
                self._must_go_on(one)
                await self._look(one)
                await changed(LOOK_S)
            failed = ended.startswith("failed: ")
            now = self._now()
            done = fail(one.operation, ended.removeprefix("failed: "), now) if failed else end(one.operation, now)
            await self._save(done, one, ended)

    async def _make(self, one: Rehearsal) -> None:
        match one.drill:
            case Drill.STALL:
                await self._busy(one)
                await self._stop_core(one)
            case Drill.CRASH:
                core = await self._core(one)
                self._with.send(core.pid, core.start_ticks, signal.SIGKILL)
                self._mark(one, "killed", f"SIGKILL to pid {core.pid} ({core.name})")
            case Drill.ZOMBIE:
                await self._busy(one)
                await hang_up(one)
                self._mark(one, "hung up", "the client closed its connection in the middle of the answer")
            case Drill.SLOW_START:
                await self._slow_start(one)

    async def _slow_start(self, one: Rehearsal) -> None:
        generation = one.loop.record.generation
        wish = lambda record: commands.restart(record, None, self._now())  # noqa: E731
        await self._with.fleet.ask(one.operation.slug, RESTART, wish, one.operation.by)
        self._mark(one, "restart asked", "a new container of the same plan")
        await self._until(one, lambda: one.loop.record.generation > generation and running(one.loop) is not None)
        await self._stop_core(one)
        await asyncio.sleep(min(SLOW_S, one.loop.plan.watch.start_silence.value / 2))
        self._heal(one)

    async def _stop_core(self, one: Rehearsal) -> None:
        core = await self._core(one)
        self._with.send(core.pid, core.start_ticks, signal.SIGSTOP)
        one.stopped = core
        self._mark(one, "stopped", f"SIGSTOP to pid {core.pid} ({core.name})")

    async def _core(self, one: Rehearsal) -> Process:
        view = running(one.loop)
        tree = await self._with.processes.tree(view.pid) if view is not None and view.pid is not None else None
        if tree is None or isinstance(tree, Unknown):
            why = tree.reason if isinstance(tree, Unknown) else "its container does not run"
            raise NotDrilled(slug=one.operation.slug, kind=one.drill.value, why=why)
        core = core_of(tree.value)
        if core is None:
            raise NotDrilled(slug=one.operation.slug, kind=one.drill.value, why="it has no process")
        return core

    async def _busy(self, one: Rehearsal) -> None:
        """One long request, and the engine's word that it runs."""
        endpoint, engine = one.loop.endpoint, one.loop.plan.engine
        if endpoint is None or engine is None:
            raise NotDrilled(slug=one.operation.slug, kind=one.drill.value, why="its API cannot be reached from here")
        request = dialect_of(engine.kind).canary(engine, one.operation.id)
        one.client = asyncio.create_task(self._client(endpoint, endless(request)), name="drill's client")
        self._mark(one, "client", "one request for a very long answer")
        await self._until(one, lambda: runs_requests(one.loop) or (one.client is not None and one.client.done()))
        if one.client.done():
            why = f"its request ended at once: {one.client.result()}"
            raise NotDrilled(slug=one.operation.slug, kind=one.drill.value, why=why)

    async def _client(self, endpoint: Endpoint, request: Request) -> object:
        return await self._with.probe.ask(endpoint, request, LONGEST_S)

    async def _until(self, one: Rehearsal, true: Callable[[], bool]) -> None:
        """As long as it takes; a start may take long. A request must show soon."""
        patience = LONGEST_S if one.drill is Drill.SLOW_START else UNDER_WAY_S
        try:
            async with asyncio.timeout(patience), self._with.fleet.changes() as changed:
                while not true():
                    self._must_go_on(one)
                    await self._tell(one)
                    self._with.fleet.wake(one.operation.slug)
                    await changed(LOOK_S)
        except TimeoutError as error:
            why = f"within {patience:.0f} s the engine did not say that the request runs"
            raise NotDrilled(slug=one.operation.slug, kind=one.drill.value, why=why) from error

    def _must_go_on(self, one: Rehearsal) -> None:
        """Raises NotDrilled where a person ended what it rehearses on: nothing would ever come of it."""
        wanted = one.loop.record.desired
        if one.loop.gone or wanted is not Desired.RUNNING:
            why = f"it was {'removed' if one.loop.gone else f'asked to be {wanted.value}'} meanwhile"
            raise NotDrilled(slug=one.operation.slug, kind=one.drill.value, why=why)

    async def _look(self, one: Rehearsal) -> None:
        """A zombie that the engine does not make is an answer, too."""
        if one.drill is not Drill.ZOMBIE or any(mark.what == "freed" for mark in one.own):
            return
        hung_up = next(mark.at for mark in one.own if mark.what == "hung up")
        sample = one.loop.sampled
        looked = sample is not None and sample > one.began + hung_up
        if looked and not runs_requests(one.loop) and one.loop.record.state in SERVES:
            self._mark(one, "freed", "the engine says that no request runs")

    def _heal(self, one: Rehearsal) -> None:
        """SIGCONT to what was stopped, if it is still there, and no client left behind."""
        if one.client is not None:
            one.client.cancel()
        core, one.stopped = one.stopped, None
        if core is None:
            return
        try:
            there = self._with.send(core.pid, core.start_ticks, signal.SIGCONT)
        except AgentError as error:
            log.warning("drill_not_healed", pid=core.pid, reason=error.text)
            return
        if there:
            self._mark(one, "resumed", f"SIGCONT to pid {core.pid} ({core.name})")

    def _mark(self, one: Rehearsal, what: str, text: str) -> None:
        one.own.append(Mark(self._now() - one.began, what, text))

    async def _tell(self, one: Rehearsal) -> list[Mark]:
        """The time line so far, for whoever follows the operation."""
        marks = await self._marks(one)
        progress = progress_of(marks)
        if progress != one.operation.progress:
            one.operation = replace(one.operation, progress=progress)
            await self._with.store.save_operation(one.operation)
        return marks

    async def _marks(self, one: Rehearsal) -> list[Mark]:
        events = await self._with.store.events(one.operation.slug, after=one.after, limit=1000)
        return sorted([*one.own, *marks_of(events, one.began)], key=lambda mark: mark.at)

    async def _save(self, operation: Operation, one: Rehearsal, text: str = "") -> None:
        self._heal(one)
        progress = {**progress_of(await self._marks(one)), **({"text": text} if text else {})}
        await self._with.store.save_operation(replace(operation, progress=progress))
        await self._with.fleet.tell(operation.slug, "drill", text or str(progress.get("text", "")))

    def _now(self) -> float:
        return self._with.clock.now().wall


def unfit(loop: Loop, under_way: bool) -> tuple[str, str] | None:
    """Why this deployment cannot be drilled now, and what to do about it."""
    slug = loop.record.slug
    if not loop.plan.expendable:
        advice = "expendable: true in its profile marks an engine that drills may harm, then deploy it again"
        return "its plan does not say that it is expendable", advice
    if under_way:
        return "a drill of it is under way", f"agentctl events {slug} -f shows how it goes"
    if loop.record.supervision is not Supervision.ACTIVE:
        why = f"its supervision is {loop.record.supervision.value}: nothing would be done about the fault"
        return why, f"agentctl resume {slug}"
    if loop.record.state not in SERVES:
        return f"it is {loop.record.state.value}: {loop.record.why}", "a drill begins on an engine that serves"
    return None


def running(loop: Loop) -> ContainerView | None:
    """The container that runs now, by the last look."""
    view = loop.container
    return view if view is not None and view.running and view.generation == loop.record.generation else None


def runs_requests(loop: Loop) -> bool:
    """By the engine's own word."""
    figures = loop.verdict.figures if loop.verdict is not None else {}
    return bool(figures.get("requests_running")) or bool(figures.get("requests_waiting"))


def endless(request: Request) -> Request:
    """The canary's question for as many tokens as it can make."""
    body = {key: value for key, value in (request.body or {}).items() if key not in ("max_tokens", "n_predict")}
    return replace(request, body={**body, "max_tokens": ANSWER_TOKENS, "ignore_eos": True, "stream": True})


async def hang_up(one: Rehearsal) -> None:
    if one.client is not None:
        one.client.cancel()
        await asyncio.gather(one.client, return_exceptions=True)


def progress_of(marks: list[Mark]) -> dict[str, object]:
    text = f"{marks[-1].what} after {marks[-1].at:.0f} s: {marks[-1].text}" if marks else "begins"
    return {"text": text, "timeline": [mark.to_json() for mark in marks]}
