"""Verifications: one at a time and deployment, beside its loop, cancelled without leaving a request behind."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from agent.action.operation import VERIFY, Operation, end, fail
from agent.action.record import State
from agent.action.store import Event, Store
from agent.clock import Clock, timestamp
from agent.daemon.fleet import Fleet
from agent.daemon.guard import attempt
from agent.engines.registry import dialect_of
from agent.errors import AgentError, NotFound, Refused
from agent.metrics.board import Board
from agent.plan.model import Plan
from agent.samples.port import Endpoint, Probe
from agent.verify.compare import Measured, left_json, row_json, rows_of
from agent.verify.measure import Bench, measure
from agent.verify.plausible import Limits, limits_json
from agent.verify.points import LeftOut, Point, points_of, reach_of
from agent.verify.port import Streams

log = structlog.get_logger()
READY = frozenset({State.READY, State.BUSY})
REPEATS, QUICK_REPEATS = 3, 1
TOLD_EVERY_S = 1.0
SCHEDULE = "schedule"
"""Who asked, where nobody did."""


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


class Verifier:
    """Runs them, keeps the last report of each deployment, and knows their ratios for the export."""

    def __init__(self, means: Means) -> None:
        self._with = means
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._slugs: dict[str, str] = {}
        self.ratios: dict[tuple[str, str], float] = {}
        """(slug, point and metric) → measured ÷ claimed, of the last report."""

    async def recover(self) -> None:
        """What ran when the agent ended has ended with it; the last reports are read again."""
        now = self._with.clock.now().wall
        for operation in await self._with.store.operations(open_only=True):
            if operation.kind == VERIFY:
                await self._with.store.save_operation(fail(operation, "the agent was restarted meanwhile", now))
        for report in await asyncio.to_thread(read_reports, self._with.folder):
            self._note(report)

    async def start(self, slug: str, terms: VerifyTerms, by: str) -> Operation:
        """Begin one; refused where the engine does not serve, or one is under way."""
        loop = self._with.fleet.loop(slug)
        endpoint = loop.endpoint
        if loop.record.state not in READY or endpoint is None or loop.plan.engine is None:
            raise NotVerifiable(slug=slug, why=f"it is {loop.record.state.value}: {loop.record.why}")
        if slug in self._slugs.values():
            raise NotVerifiable(slug=slug, why="a verification of it is under way")
        points, left = points_of(loop.plan.claims, reach_of(loop.plan.engine, loop.kv_tokens), quick=terms.quick)
        points, left = chosen(points, left, terms.only)
        if not points:
            why = "; ".join(f"{one.name}: {one.why}" for one in left) or "its recipe claims nothing"
            raise NotVerifiable(slug=slug, why=f"no point can be measured: {why}")
        operation = Operation(
            id=secrets.token_hex(8), slug=slug, kind=VERIFY, created=self._with.clock.now().wall, by=by
        )
        await self._with.store.save_operation(operation)
        self._slugs[operation.id] = slug
        work = self._run(operation, loop.plan, endpoint, (points, left), terms)
        self._tasks[operation.id] = asyncio.create_task(work, name=f"verify {slug}")
        return operation

    async def idle(self) -> None:
        """Measure every engine that nobody uses, one after the other, in short; the schedule's job.

        One that somebody begins to use meanwhile loses the points that were disturbed, as always.
        """
        for slug in sorted(self._with.fleet.boards):
            board = self._with.fleet.boards.get(slug)
            if board is None or not unused(board):
                continue
            try:
                operation = await self.start(slug, VerifyTerms(quick=True), SCHEDULE)
            except AgentError as error:  # it was stopped a moment ago, or has no claims
                log.info("not_verified", recipe=slug, reason=error.text)
                continue
            if (task := self._tasks.get(operation.id)) is not None:
                await asyncio.wait({task})

    async def cancel(self, operation_id: str) -> Operation:
        """Hang up every request of it."""
        task = self._tasks.get(operation_id)
        if task is None:
            raise NotFound(what="running verification", name=operation_id, why="it is over, or it never was one")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        found = await self._with.store.operation(operation_id)
        if found is None:
            raise NotFound(what="operation", name=operation_id, why="it is too long ago")
        return found

    async def report(self, slug: str) -> Mapping[str, Any]:
        """The last one of a deployment."""
        path = self._with.folder / f"{slug}.json"
        found = await asyncio.to_thread(read_report, path)
        if found is None:
            raise NotFound(what="verification", name=slug, why=f"none was made: agentctl verify {slug}")
        return found

    async def _run(
        self,
        operation: Operation,
        plan: Plan,
        endpoint: Endpoint,
        sorted_out: tuple[tuple[Point, ...], tuple[LeftOut, ...]],
        terms: VerifyTerms,
    ) -> None:
        points, left = sorted_out
        teller = Teller(self._with.store, self._with.clock, operation)
        try:
            limits = await self._with.limits(plan)
            work = measure(self._bench(plan, endpoint, limits, terms, teller), points)
            measured = await attempt(f"verify {operation.slug}", work)
        except asyncio.CancelledError:
            why = "it was cancelled; nothing of it runs on"
            await teller.finish(fail(operation, why, self._now(), "verify.cancelled"))
            raise
        finally:
            self._tasks.pop(operation.id, None)
            self._slugs.pop(operation.id, None)
        if isinstance(measured, str):
            await teller.finish(fail(operation, measured, self._now()))
            return
        report = report_of(plan, measured, left, terms, self._now()) | {"limits": limits_json(limits)}
        await asyncio.to_thread(write_report, self._with.folder, report)
        self._note(report)
        await teller.finish(replace(end(operation, self._now()), progress={"text": sentence(report), "ratio": 1.0}))
        event = Event(self._now(), operation.slug, "verify", sentence(report), {"operation": operation.id})
        self._with.fleet.told(await self._with.store.add_event(event))

    def _bench(self, plan: Plan, endpoint: Endpoint, limits: Limits, terms: VerifyTerms, teller: Teller) -> Bench:
        assert plan.engine is not None  # noqa: S101 - start() has looked
        return Bench(
            probe=self._with.probe,
            streams=self._with.streams,
            endpoint=endpoint,
            engine=plan.engine,
            dialect=dialect_of(plan.engine.kind),
            limits=limits,
            repeats=QUICK_REPEATS if terms.quick else REPEATS,
            say=teller.say,
        )

    def _now(self) -> float:
        return self._with.clock.now().wall

    def _note(self, report: Mapping[str, Any]) -> None:
        slug = str(report["slug"])
        self.ratios = {key: value for key, value in self.ratios.items() if key[0] != slug}
        for row in report["rows"]:
            if row["ratio"] is not None:
                self.ratios[(slug, f"{row['point']} {row['metric']}")] = float(row["ratio"])

    async def close(self) -> None:
        """End what runs."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._with.streams.close()


class Teller:
    """Progress into the stored operation, at most once a second."""

    def __init__(self, store: Store, clock: Clock, operation: Operation) -> None:
        self._store = store
        self._clock = clock
        self._operation = operation
        self._last = 0.0
        self._pending: set[asyncio.Task[None]] = set()

    def say(self, progress: Mapping[str, Any]) -> None:
        now = self._clock.now().mono
        if now - self._last < TOLD_EVERY_S:
            return
        self._last = now
        saved = self._store.save_operation(replace(self._operation, progress=dict(progress)))
        task = asyncio.ensure_future(saved)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def finish(self, operation: Operation) -> None:
        """The last word, after all others."""
        await asyncio.gather(*self._pending, return_exceptions=True)
        await self._store.save_operation(operation)


def unused(board: Board) -> bool:
    """Ready, with no request and no client, both known."""
    figures = board.verdict.figures if board.verdict else {}
    quiet = figures.get("requests_running") == 0 and figures.get("client_connections") == 0
    return board.record.state is State.READY and quiet


def chosen(
    points: tuple[Point, ...], left: tuple[LeftOut, ...], only: tuple[str, ...]
) -> tuple[tuple[Point, ...], tuple[LeftOut, ...]]:
    """Points whose name has one of the words; all where no word is given."""
    if not only:
        return points, left
    taken = tuple(point for point in points if any(word in point.name for word in only))
    others = tuple(LeftOut(point.name, "not asked for") for point in points if point not in taken)
    return taken, (*left, *others)


def report_of(
    plan: Plan, measured: tuple[Measured, ...], left: tuple[LeftOut, ...], terms: VerifyTerms, now: float
) -> dict[str, Any]:
    """Everything that is needed to do it again, and what came of it."""
    return {
        "slug": plan.recipe.slug,
        "at": timestamp(now),
        "plan_id": plan.plan_id,
        "recipe": {"revision": plan.recipe.revision, "sha256": plan.recipe.sha256},
        "gpus": list(plan.gpus),
        "quick": terms.quick,
        "points": [
            {
                "name": one.point.name,
                "concurrency": one.point.concurrency,
                "context": one.point.context,
                "prompt_tokens": one.point.prompt_tokens,
                "max_tokens": one.point.max_tokens,
                "origins": list(one.point.origins),
                "notes": list(one.point.notes),
                "dropped": one.dropped,
            }
            for one in measured
        ],
        "rows": [row_json(row) for row in rows_of(measured)],
        "left_out": left_json(left),
    }


def sentence(report: Mapping[str, Any]) -> str:
    """The report in one line."""
    ratios = [row["ratio"] for row in report["rows"] if row["ratio"] is not None and row["metric"] != "ttft_ms"]
    if not ratios:
        return "no rate could be held against a claim"
    return f"rates are {min(ratios):.2f} to {max(ratios):.2f} of what is claimed, over {len(ratios)} points"


def write_report(folder: Path, report: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report['slug']}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(report, indent=1))
    os.replace(partial, path)  # noqa: PTH105


def read_report(path: Path) -> dict[str, Any] | None:
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return report if isinstance(report, dict) and "rows" in report and "slug" in report else None


def read_reports(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return [report for file in files if (report := read_report(file)) is not None]
