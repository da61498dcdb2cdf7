"""All deployments of this host: their loops, what persons ask of them, and what is published of them."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import structlog

from agent.action import commands
from agent.action.budget import HostBudget
from agent.action.conflicts import no_conflict
from agent.action.operation import DEPLOY, RESTART, Operation, begun, end, follow, followed, interrupted
from agent.action.record import Deployment, Desired, State, Supervision
from agent.action.seen import Upkeep, Worn
from agent.action.store import Event, Store, StoreTrouble
from agent.clock import Clock
from agent.container.port import Runtime
from agent.daemon.audience import Audience
from agent.daemon.guard import cancelled, forever
from agent.daemon.loop import Loop
from agent.daemon.rebuild import rebuilt
from agent.daemon.wishes import STARTS, BrokenHost, PlanIncomplete, holds, moved, refused, same_runtime
from agent.errors import AgentError, NotFound
from agent.metrics.board import Board
from agent.plan.model import Plan
from agent.samples.model import Xid

log = structlog.get_logger()

LISTEN_AGAIN_S = 5.0
LONGEST_STEP_S = 90.0
"""What one tick may take at most beside a pull or a build: evidence (30 s), a hung Docker call (30 s), a look."""


@dataclass(frozen=True, slots=True)
class Making:
    """How the fleet makes what it needs; the wiring supplies it."""

    loop: Callable[[Deployment, Plan], Loop]
    plan_to_json: Callable[[Plan], Mapping[str, Any]]
    plan_from_json: Callable[[Mapping[str, Any]], Plan]


class Fleet(Audience):
    """Owns every loop. Its methods are what the API calls."""

    def __init__(self, runtimes: Mapping[str, Runtime], store: Store, clock: Clock, boot_id: str) -> None:
        super().__init__()
        self.boards: dict[str, Board] = {}
        self.loops: dict[str, Loop] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._begun: dict[str, float] = {}
        self._turned: dict[str, float] = {}
        """When each loop last looked, on CLOCK_MONOTONIC; none yet: it has not since this agent began."""
        self._runtimes = runtimes
        self._store = store
        self._clock = clock
        self.boot_id = boot_id
        self.tick_s: float | None = None
        self.trouble: Callable[[Collection[str], Collection[str]], str] = lambda _cards, _accepted: ""
        """What is wrong with cards, or the host, that no start can mend."""
        self.forgive: Callable[[Collection[str]], None] = lambda _: None
        """A person has dealt with what the driver reported of these cards."""
        self.window: Callable[[float], str] = lambda _: ""
        """Empty while a maintenance window is open, else when the next one opens."""
        self.upkeep: Callable[[float], Upkeep] = lambda _: Upkeep()
        """What the site lets be done in its maintenance windows, at this time."""
        self.worn: Callable[[Deployment, Plan], tuple[Worn, ...]] = lambda _record, _plan: ()
        """What has become worse of the engine that runs, and may be mended by a new start."""
        self.host_budget: Callable[[], HostBudget] = HostBudget
        self._restarted: deque[float] = deque(maxlen=1000)
        """When deployments were restarted for a fault, on CLOCK_MONOTONIC."""
        self.on_board: Callable[[Board], None] = lambda _: None
        """Sees every board as it is published."""
        self._making: Making | None = None
        self._wakers: list[asyncio.Task[None]] = []
        self._following = asyncio.Lock()
        self._tasks_of_operations: set[asyncio.Task[None]] = set()
        self.current: dict[str, str] = {}
        """Slug → the operation that is under way, for the log."""
        self._unanswered: set[str] = set()  # a person asked something of them since their last tick

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self, making: Making) -> None:
        """Take up every deployment that the state holds, and begin to listen to the runtime."""
        self._making = making
        kept = await self._store.load()
        for record in kept:
            await self._take_up(record)
        await self._end_interrupted({record.slug: record for record in kept})
        if self._store.rebuilt is not None:
            await self.tell("", "agent", f"{self._store.rebuilt}; deployments are taken up by their containers' labels")
            self._wakers = [
                asyncio.create_task(forever(f"{name} rebuild", partial(self._rebuild, runtime)), name=f"{name} rebuild")
                for name, runtime in self._runtimes.items()
            ]
        self._wakers += [
            asyncio.create_task(forever(f"{name} events", partial(self._listen, runtime)), name=f"{name} events")
            for name, runtime in self._runtimes.items()
        ]

    async def _end_interrupted(self, kept: Mapping[str, Deployment]) -> None:
        """Operations that the agent before this one noted and could not begin, or whose deployment went with it."""
        now = self._clock.now().wall
        for operation in await self._store.operations(open_only=True):
            record = kept.get(operation.slug)
            if record is None:
                await self._store.save_operation(follow(operation, None, now))
            elif not begun(operation, record):
                await self._store.save_operation(interrupted(operation, now))
            else:
                self.current[operation.slug] = operation.id

    async def _take_up(self, record: Deployment) -> None:
        """One that cannot be taken up costs the others nothing; its record stays."""
        try:
            plan = await self.plan_of(record.plan_id)
        except AgentError as error:
            await self.tell(record.slug, "agent", f"cannot take up {record.slug}, its record is kept: {error.text}")
            return
        self._begin(record, plan)

    async def _rebuild(self, runtime: Runtime) -> None:
        """After the loss of the state: what the runtime has of ours. A runtime that does not answer is asked again."""
        now = self._clock.now().wall
        for record in rebuilt(await runtime.list(), self.boot_id, now):
            if record.slug in self.loops:
                continue
            try:
                plan = await self.plan_of(record.plan_id)
            except AgentError as error:
                await self.tell(record.slug, "agent", f"a container of {record.slug} is left alone: {error.text}")
                continue
            await self._store.save(record)
            await self.tell(record.slug, "agent", record.why)
            self._begin(record, plan)

    async def tell(self, slug: str, kind: str, text: str, data: Mapping[str, Any] | None = None) -> None:
        """An event of the agent's own; one that cannot be written is told all the same."""
        log.warning(kind, recipe=slug, text=text)
        event = Event(self._clock.now().wall, slug, kind, text, data or {})
        try:
            event = await self._store.add_event(event)
        except StoreTrouble as error:
            log.warning("event_lost", recipe=slug, text=text, reason=error.text)
        self.told(event)

    def _begin(self, record: Deployment, plan: Plan) -> Loop:
        assert self._making is not None  # noqa: S101 - start() comes first
        loop = self._making.loop(record, plan)
        self.loops[record.slug] = loop
        # known before the first look: whoever asks right after a start of the agent is told what the record says
        now = self._clock.now()
        self._begun[record.slug] = now.mono
        self.boards[record.slug] = Board(record=record, plan=plan, runtime=plan.runtime, at=now.wall)
        task = asyncio.create_task(self._drive(record.slug, loop), name=f"loop {record.slug}")
        self._tasks[record.slug] = task
        return loop

    async def _drive(self, slug: str, loop: Loop) -> None:
        structlog.contextvars.bind_contextvars(recipe=slug)
        await forever(f"loop {slug}", loop.run)
        self.loops.pop(slug, None)
        self._tasks.pop(slug, None)
        self.boards.pop(slug, None)
        self._turned.pop(slug, None)
        self._begun.pop(slug, None)
        await self._follow_operations(slug, None)
        self._notify()

    async def _listen(self, runtime: Runtime) -> None:
        """The runtime's events only wake loops: they may end or miss things, the loops' own polls are the truth."""
        while True:
            try:
                async for slug in runtime.events():
                    self.wake(slug)
            except AgentError as error:
                log.debug("no_events", runtime=runtime.kind, reason=error.text)
            await asyncio.sleep(LISTEN_AGAIN_S)

    def turning(self) -> str | None:
        """None when every deployment's loop has looked lately, else which one has not."""
        now = self._clock.now().mono
        for slug, loop in self.loops.items():
            turned = self._turned.get(slug, self._begun[slug])  # one that has just begun is not late yet
            patience = 3 * loop.plan.watch.period.value + LONGEST_STEP_S
            if now - turned > patience:
                return f"the loop of {slug} has not turned for {now - turned:.0f} s"
        return None

    async def close(self) -> None:
        """Leave. Engines run on."""
        await cancelled(*self._wakers, *self._tasks.values(), *self._tasks_of_operations)

    # -- what loops tell ----------------------------------------------------------------------------------------------

    def publish(self, board: Board) -> None:
        """Take a loop's last tick; open operations follow it."""
        slug = board.record.slug
        self.tick_s = board.tick_s if board.tick_s is not None else self.tick_s
        before = self.boards.get(slug)
        self._count_restarts(before, board)
        self.boards[slug] = board
        self.on_board(board)
        news = slug not in self._turned or slug in self._unanswered  # what was asked may change nothing in the record
        self._turned[slug] = self._clock.now().mono
        self._unanswered.discard(slug)
        if news or before is None or moved(before, board):
            task = asyncio.create_task(self._follow_operations(slug, board), name=f"operations {slug}")
            self._tasks_of_operations.add(task)
            task.add_done_callback(self._tasks_of_operations.discard)
        self._notify()

    def _count_restarts(self, before: Board | None, board: Board) -> None:
        grown = len(board.record.restarts) - len(before.record.restarts) if before is not None else 0
        self._restarted.extend([self._clock.now().mono] * max(0, grown))

    def host_wait(self) -> float:
        """Seconds until the restarts of all deployments together allow one more."""
        return self.host_budget().wait(tuple(self._restarted), self._clock.now().mono)

    def broken(self, plan: Plan, record: Deployment) -> str:
        return self.trouble(plan.gpus, record.accepted)

    async def beware(self, card: str, why: str) -> None:
        """Something is wrong with a card, or with the host: told to every deployment that it concerns."""
        slugs = [slug for slug, loop in self.loops.items() if card in loop.plan.gpus or (not card and loop.plan.gpus)]
        for slug in slugs or [""]:
            await self.tell(slug, "host", why, {"card": card} if card else {})
            self.wake(slug)

    def wake(self, slug: str) -> None:
        """Something about this deployment changed: look soon."""
        if (loop := self.loops.get(slug)) is not None:
            loop.wake()

    def sentence(self) -> str:
        """All deployments in one line, for the service manager."""
        states = [f"{slug} {board.record.state.value}" for slug, board in sorted(self.boards.items())]
        return ", ".join(states)[:300] or "nothing is deployed"

    def xid(self, xid: Xid) -> None:
        """Give an Xid to the deployments on that card."""
        for loop in self.loops.values():
            if xid.uuid in loop.plan.gpus:
                loop.note_xid(xid)

    async def _follow_operations(self, slug: str, board: Board | None) -> None:
        """Bring the open operations of `slug` up to what its board says, in the order of the boards."""
        async with self._following:
            try:
                await self._bring_up(slug, board)
            except StoreTrouble as error:
                log.warning("operations_not_followed", recipe=slug, reason=error.text)
        self._notify()

    async def _bring_up(self, slug: str, board: Board | None) -> None:
        now = self._clock.now().wall
        for operation in filter(followed, await self._store.operations(slug, open_only=True)):
            now_at = follow(refused(operation, board, now), board.record if board else None, now)
            if now_at.state == "done" and operation.kind in STARTS and board is not None and board.sample is None:
                continue  # it runs, and has not been looked at once: its endpoint is not known yet
            if board is not None and board.progress and not now_at.over:
                now_at = replace(now_at, progress={**now_at.progress, **board.progress})
            if now_at.over and self.current.get(slug) == operation.id:
                del self.current[slug]
            if now_at != operation:
                await self._store.save_operation(now_at)

    # -- what persons ask ---------------------------------------------------------------------------------------------

    async def deploy(self, plan: Plan, want: commands.Want, by: str) -> Operation:
        """Ask for a plan to run. It must miss nothing, and want nothing that another deployment has."""
        slug = plan.recipe.slug
        if plan.missing:
            raise PlanIncomplete(
                slug=slug,
                keys=", ".join(one.key for one in plan.missing),
                how="; ".join(f"{one.key}: {one.how}" for one in plan.missing),
                missing=[{"key": one.key, "why": one.why, "how": one.how} for one in plan.missing],
            )
        assert self._making is not None  # noqa: S101
        if want.replaces is not None:
            self.loop(want.replaces)
        no_conflict(plan, self._others(slug, want.replaces))
        now = self._clock.now().wall
        loop = await self._standing(slug)
        if loop is None or loop.record.plan_id != plan.plan_id:  # the plan that runs keeps the time of its coming
            await self._store.save_plan(slug, self._making.plan_to_json(plan))
        if loop is not None:
            same_runtime(loop.plan, plan)
        operation = await self._open(slug, DEPLOY, plan.plan_id, by)
        if want.at_window:
            operation = await self._waits(operation, now)
        if loop is not None:
            await loop.change(lambda record: commands.deploy(record, want, now))
            return operation
        record = replace(commands.deploy(None, want, now), boot_id=self.boot_id)
        await self._store.save(record)
        self._begin(record, plan)
        return operation

    async def _waits(self, operation: Operation, now: float) -> Operation:
        """What waits for a maintenance window is over for who asked: the deployment's own sentence tells the rest."""
        waiting = replace(end(operation, now), progress={"text": f"waits: {self.window(now)}"})
        await self._store.save_operation(waiting)
        return waiting

    async def restart_later(self, slug: str, by: str) -> Operation:
        """In the next maintenance window; at once while one is open."""
        now = self._clock.now().wall
        await self.loop(slug).change(commands.restart_later)
        return await self._waits(await self._open(slug, RESTART, None, by), now)

    def _others(self, slug: str, replaced: str | None) -> list[Plan]:
        """Plans of the other deployments that should run."""
        return [loop.plan for other, loop in self.loops.items() if other not in (slug, replaced) and holds(loop.record)]

    def standing(self, slug: str) -> str:
        """Whether a deployment `runs`, `leaves` or `rests`; one that is not there rests."""
        loop = self.loops.get(slug)
        if loop is None or (loop.record.state is State.STOPPED and loop.record.takedown is None):
            return "rests"
        return "leaves" if loop.record.desired is not Desired.RUNNING else "runs"

    async def make_room(self, slug: str, for_whom: str) -> None:
        """Stop `slug` so that another deployment can have its cards."""
        now = self._clock.now().wall
        await self.loop(slug).change(lambda record: commands.stop(record, None, now, f"made room for {for_whom}"))

    async def bring_back(self, slug: str) -> None:
        """Start `slug` again; one that a person removed meanwhile stays away."""
        if (loop := self.loops.get(slug)) is not None:
            now = self._clock.now().wall
            await loop.change(lambda record: commands.start(record, True, now))

    async def ask(self, slug: str, kind: str, wish: Callable[[Deployment], Deployment], by: str) -> Operation:
        """Any other wish: stop, start, restart, remove."""
        loop = self.loop(slug)
        if kind == RESTART and loop.record.started_at is not None:
            self._can_start(loop)
        wish(loop.record)  # refuses now, before anything is written
        operation = await self._open(slug, kind, None, by)
        self._unanswered.add(slug)
        await loop.change(wish)
        return operation

    def _can_start(self, loop: Loop) -> None:
        """An engine that runs is not taken down where none can be started."""
        if why := self.broken(loop.plan, loop.record):
            raise BrokenHost(slug=loop.record.slug, why=why)

    async def supervise(self, slug: str, mode: Supervision) -> Deployment:
        return await self.loop(slug).change(lambda record: commands.supervise(record, mode))

    async def _standing(self, slug: str) -> Loop | None:
        """The loop of a deployment, or None: one that was just forgotten is waited for."""
        loop = self.loops.get(slug)
        if loop is not None and loop.gone:
            await asyncio.wait({self._tasks[slug]})
            loop = self.loops.get(slug)
        return loop

    def loop(self, slug: str) -> Loop:
        """The loop of a deployment, or NotFound."""
        try:
            return self.loops[slug]
        except KeyError:
            known = ", ".join(sorted(self.loops)) or "none"
            raise NotFound(what="deployment", name=slug, why=f"deployed here: {known}") from None

    async def _open(self, slug: str, kind: str, plan_id: str | None, by: str) -> Operation:
        loop = self.loops.get(slug)
        operation = Operation(
            id=secrets.token_hex(8),
            slug=slug,
            kind=kind,
            created=self._clock.now().wall,
            plan_id=plan_id,
            generation=loop.record.generation if loop else 0,
            by=by,
        )
        await self._store.save_operation(operation)
        self.current[slug] = operation.id
        return operation

    async def plan_of(self, plan_id: str) -> Plan:
        """A kept plan."""
        assert self._making is not None  # noqa: S101
        data = await self._store.plan(plan_id)
        if data is None:
            raise NotFound(what="plan", name=plan_id, why="it is not in the state file")
        return self._making.plan_from_json(data)
