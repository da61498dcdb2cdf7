"""Verifications: one at a time and deployment, beside its loop, cancelled without leaving a request behind."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from agent.action.operation import VERIFY, Operation, end, fail
from agent.action.record import State
from agent.action.store import Event, Store
from agent.clock import Clock
from agent.daemon.fleet import Fleet
from agent.daemon.guard import attempt, cancelled
from agent.daemon.loop import Loop
from agent.daemon.verifyreport import (
    Method,
    ratios_of,
    report_of,
    sentence,
    verified_of,
)
from agent.daemon.verifyshelf import keep_report, last_report, read_reports
from agent.engines.registry import dialect_of
from agent.errors import NotFound, Refused
from agent.metrics.board import Verified
from agent.plan.model import Plan
from agent.samples.port import Endpoint, Probe
from agent.verify.measure import Bench, GaveWay, measure
from agent.verify.plausible import Limits
from agent.verify.points import LeftOut, Point, chosen, points_of, reach_of, unknown_words
from agent.verify.port import Streams

log = structlog.get_logger()
READY = frozenset({State.READY, State.BUSY})
SERVING = READY | {State.SUSPECT, State.UNOBSERVABLE}
Report = dict[str, Any]
REPEATS, QUICK_REPEATS = 3, 1
TOLD_EVERY_S = 1.0
STANDING_S = 1.0
"""How often it is looked whether the engine that is measured is still the one that serves."""
CLOSE_S = 5.0
GAVE_WAY = "verify.gave_way"
"""Code of what ended for others."""
AGAIN, AGAIN_S = 1000, 5.0
TOLD_POINTS = 20


class NotVerifiable(Refused):
    """There is nothing that could be measured now."""

    code = "verify.refused"
    message = "cannot verify {slug}: {why}"
    hint = "agentctl status {slug}"


@dataclass(frozen=True, slots=True)
class VerifyTerms:
    """What is asked for: only what is quickly measured, only points whose name has one of these words."""

    quick: bool = False
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Means:
    """Where verifications work."""

    fleet: Fleet
    store: Store
    clock: Clock
    probe: Probe
    streams: Streams
    limits: Callable[[Plan], Awaitable[Limits]]
    folder: Path


@dataclass(frozen=True, slots=True)
class Job:
    """One verification: the engine as it was when it was asked for, and what is measured of it."""

    operation: Operation
    loop: Loop
    generation: int
    plan: Plan
    endpoint: Endpoint
    points: tuple[Point, ...]
    left: tuple[LeftOut, ...]
    method: Method
    in_the_way: Callable[[str, int], str] | None = None
    """Nobody waits for it: why it gives way to others, by slug and how many requests it sends at once."""

    def gives_way(self) -> str:
        """Why it is to end for others now; empty where it is not."""
        most = max(point.concurrency for point in self.points)
        return self.in_the_way(self.operation.slug, most) if self.in_the_way is not None else ""

    @property
    def name(self) -> str:
        return f"verify {self.operation.slug}"


class Verifier:
    """Runs them, keeps the last reports of each deployment, and knows their ratios for the export."""

    def __init__(self, means: Means) -> None:
        self._with = means
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._work: dict[str, asyncio.Task[Report | str]] = {}
        """What is cancelled of an operation; its task sees to the end."""
        self._jobs: dict[str, Job] = {}
        self._gave_way: dict[str, str] = {}
        """Operation → for what it ends before its time."""
        self._slugs: set[str] = set()
        """Where one is under way."""
        self._ratios: dict[str, tuple[str, dict[str, float]]] = {}
        self._last: dict[str, tuple[str, Verified]] = {}
        """By slug: the plan of the last report, and what it came to."""

    @property
    def ratios(self) -> dict[tuple[str, str], float]:
        """(slug, point and metric) → measured ÷ claimed, each as last measured on the plan that is deployed."""
        boards = self._with.fleet.boards
        return {
            (slug, name): ratio
            for slug, (plan_id, found) in self._ratios.items()
            if slug in boards and boards[slug].plan.plan_id == plan_id
            for name, ratio in found.items()
        }

    def last(self, slug: str) -> Verified:
        """What the last report on the plan that is deployed came to."""
        plan_id, found = self._last.get(slug, ("", Verified()))
        board = self._with.fleet.boards.get(slug)
        return found if board is not None and board.plan.plan_id == plan_id else Verified()

    async def recover(self) -> None:
        """What ran when the agent ended has ended with it; the last reports are read again."""
        now = self._with.clock.now().wall
        for operation in await self._with.store.operations(open_only=True):
            if operation.kind == VERIFY:
                await self._with.store.save_operation(fail(operation, "the agent was restarted meanwhile", now))
        for report in await asyncio.to_thread(read_reports, self._with.folder):
            self._note(report)

    async def start(
        self, slug: str, terms: VerifyTerms, by: str, in_the_way: Callable[[str, int], str] | None = None
    ) -> Operation:
        """Begin one; refused where the engine does not serve, or one is under way that somebody waits for.

        `in_the_way`: nobody waits for this one, and it ends when that says why.
        """
        if in_the_way is None:
            await self.make_room("somebody asked for a verification")
        operation = Operation(
            id=secrets.token_hex(8), slug=slug, kind=VERIFY, created=self._with.clock.now().wall, by=by
        )
        job = replace(self._job(operation, terms), in_the_way=in_the_way)
        self._slugs.add(slug)  # before anything is waited for: who asks meanwhile is refused
        try:
            await self._with.store.save_operation(operation)
        except BaseException:
            self._slugs.discard(slug)
            raise
        teller = Teller(self._with.store, self._with.clock, operation)
        work = asyncio.create_task(self._guarded(job, teller), name=f"{job.name}: requests")
        self._work[operation.id], self._jobs[operation.id] = work, job
        self._tasks[operation.id] = asyncio.create_task(self._run(job, work, teller), name=job.name)
        return operation

    def _job(self, operation: Operation, terms: VerifyTerms) -> Job:
        """Raises NotVerifiable, and NotFound."""
        slug = operation.slug
        loop = self._with.fleet.loop(slug)
        endpoint = loop.endpoint
        if loop.record.state not in READY or endpoint is None or loop.plan.engine is None:
            raise NotVerifiable(slug=slug, why=f"it is {loop.record.state.value}: {loop.record.why}")
        if slug in self._slugs:
            raise NotVerifiable(slug=slug, why="a verification of it is under way")
        reach = reach_of(loop.plan.engine, loop.kv_tokens)
        there, beyond = points_of(loop.plan.claims, reach, quick=terms.quick)
        names = [point.name for point in there] + [claim.name for claim in beyond]
        if names and (unknown := unknown_words(names, terms.only)):
            raise NotVerifiable(
                slug=slug, why=f"no point has {' or '.join(map(repr, unknown))} in its name: {few(names)}"
            )
        points, left = chosen(there, beyond, terms.only)
        if not points:
            why = "; ".join(f"{one.name}: {one.why}" for one in left[:TOLD_POINTS]) or "its recipe claims nothing"
            raise NotVerifiable(slug=slug, why=f"no point can be measured: {why}")
        repeats = QUICK_REPEATS if terms.quick else REPEATS
        method = Method(secrets.token_hex(8), repeats, terms.quick, terms.only, operation.by)
        return Job(operation, loop, loop.record.generation, loop.plan, endpoint, points, left, method)

    @property
    def under_way(self) -> frozenset[str]:
        """Deployments that are being measured."""
        return frozenset(self._slugs)

    async def over(self, operation_id: str) -> None:
        """Comes back when it has ended, however it did."""
        if (task := self._tasks.get(operation_id)) is not None:
            await asyncio.wait({task})

    async def make_room(self, why: str) -> None:
        """End every one that nobody waits for."""
        yielding = {name for name, job in self._jobs.items() if job.in_the_way is not None}
        for name in yielding:
            self._gave_way.setdefault(name, why)
            self._work[name].cancel()
        if tasks := {self._tasks[name] for name in yielding if name in self._tasks}:
            await asyncio.wait(tasks)

    async def cancel(self, operation_id: str) -> Operation:
        """Hang up every request of it."""
        task = self._tasks.get(operation_id)
        if task is None:
            raise NotFound(what="running verification", name=operation_id, why="it is over, or it never was one")
        self._work[operation_id].cancel()
        await asyncio.wait({task})
        found = await self._with.store.operation(operation_id)
        if found is None:
            raise NotFound(what="operation", name=operation_id, why="it is too long ago")
        return found

    async def report(self, slug: str, *, full: bool = False) -> Mapping[str, Any]:
        """The last one of a deployment, or the last that was made in full."""
        found = await asyncio.to_thread(last_report, self._with.folder, slug, full=full)
        if found is None:
            none = "none was made in full" if full else "none was made"
            raise NotFound(what="verification", name=slug, why=f"{none}: agentctl verify {slug}")
        return found

    async def _run(self, job: Job, work: asyncio.Task[Report | str], teller: Teller) -> None:
        """See one to its end, whatever that is: whoever asked waits for the last word."""
        try:
            ended = await self._ended(job, work)
            if isinstance(ended, dict):
                ended = await self._kept(job, ended)
            self._slugs.discard(job.operation.slug)
            await teller.finish(ended)
        finally:
            self._slugs.discard(job.operation.slug)
            for table in (self._tasks, self._work, self._jobs, self._gave_way):
                table.pop(job.operation.id, None)

    async def _ended(self, job: Job, work: asyncio.Task[Report | str]) -> Report | Operation:
        """The report, or the operation failed: by itself, by a person, or since its engine is no longer there."""
        gone = asyncio.create_task(engine_gone(job), name=f"{job.name}: its engine")
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            code, why = gone.result() if not work.done() else ("", "")
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)
        if work.cancelled():
            return self._cut_short(job, code, why)
        found = work.result()
        if isinstance(found, str):
            code = GAVE_WAY if job.operation.id in self._gave_way else "operation.failed"
            return fail(job.operation, found, self._now(), code)
        return found

    def _cut_short(self, job: Job, code: str, why: str) -> Operation:
        if not why and (room := self._gave_way.get(job.operation.id)):
            code, why = GAVE_WAY, room
        said = why or "it was cancelled; nothing of it runs on"
        return fail(job.operation, said, self._now(), code or "verify.cancelled")

    async def _guarded(self, job: Job, teller: Teller) -> Report | str:
        return await attempt(job.name, self._measured(job, teller))

    async def _measured(self, job: Job, teller: Teller) -> Report | str:
        limits = await self._with.limits(job.plan)
        try:
            measured = await measure(self._bench(job, limits, teller), job.points)
        except GaveWay as others:
            self._gave_way[job.operation.id] = others.why
            return others.why
        return report_of(job.plan, measured, job.left, (job.method, limits), self._now())

    async def _kept(self, job: Job, report: Report) -> Operation:
        """Write the report down; what cannot be kept was not made."""
        kept = await attempt(job.name, asyncio.to_thread(keep_report, self._with.folder, report))
        if isinstance(kept, str):
            return fail(job.operation, kept, self._now())
        self._note(kept)
        event = Event(self._now(), job.operation.slug, "verify", sentence(kept), {"operation": job.operation.id})
        stored = await attempt(job.name, self._with.store.add_event(event))
        self._with.fleet.told(event if isinstance(stored, str) else stored)
        return replace(end(job.operation, self._now()), progress={"text": sentence(kept), "ratio": 1.0})

    def _bench(self, job: Job, limits: Limits, teller: Teller) -> Bench:
        assert job.plan.engine is not None  # noqa: S101 - start() has looked
        return Bench(
            probe=self._with.probe,
            streams=self._with.streams,
            endpoint=job.endpoint,
            engine=job.plan.engine,
            dialect=dialect_of(job.plan.engine.kind),
            limits=limits,
            repeats=job.method.repeats,
            say=teller.say,
            seed=job.method.seed,
            yields=job.in_the_way is not None,
        )

    def _now(self) -> float:
        return self._with.clock.now().wall

    def _note(self, report: Mapping[str, Any]) -> None:
        slug, plan_id = str(report["slug"]), str(report.get("plan_id"))
        self._ratios[slug] = (plan_id, ratios_of(report))
        self._last[slug] = (plan_id, verified_of(report))

    async def close(self) -> None:
        """End what runs."""
        for work in self._work.values():
            work.cancel()
        tasks = set(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_S)
        await cancelled(*tasks)
        await self._with.streams.close()


async def engine_gone(job: Job) -> tuple[str, str]:
    """Comes back, with a code and the reason, when the engine that is measured is no longer the one that serves, or is
    wanted for something else."""
    while True:
        await asyncio.sleep(STANDING_S)
        if why := changed(job.loop, job.generation):
            return "operation.failed", why
        if why := job.gives_way():
            return GAVE_WAY, why


def few(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - TOLD_POINTS} more" if len(names) > TOLD_POINTS else ""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(names[:TOLD_POINTS])}{more}"


def changed(loop: Loop, generation: int) -> str:
    """Why an engine is no longer the one that was ready; a suspicion may be the measurement's own doing."""
    if loop.gone:
        return "the deployment was removed"
    if loop.record.generation != generation:
        return "the engine was started anew meanwhile"
    if loop.record.state not in SERVING:
        return f"it is {loop.record.state.value} meanwhile: {loop.record.why}"
    return ""


class Teller:
    """Progress into the stored operation, at most once a second."""

    def __init__(self, store: Store, clock: Clock, operation: Operation) -> None:
        self._store = store
        self._clock = clock
        self._operation = operation
        self._last = 0.0
        self._pending: set[asyncio.Task[str | None]] = set()

    def say(self, progress: Mapping[str, Any]) -> None:
        now = self._clock.now().mono
        if now - self._last < TOLD_EVERY_S:
            return
        self._last = now
        saved = self._store.save_operation(replace(self._operation, progress=dict(progress)))
        task = asyncio.ensure_future(attempt("progress of a verification", saved))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def finish(self, operation: Operation) -> None:
        """The last word, after all others; said again until it is written, since somebody waits for it."""
        await asyncio.gather(*self._pending, return_exceptions=True)
        for _ in range(AGAIN):
            if await attempt("end of a verification", self._store.save_operation(operation)) is None:
                return
            await asyncio.sleep(AGAIN_S)
