"""What is done by the clock: APScheduler's jobs keep house, and begin verifications where a site asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from agent.clock import Instant
from agent.daemon.assemble import Daemon
from agent.daemon.nightly import trigger_of
from agent.daemon.rounds import LATE_S, Rounds
from agent.errors import AgentError
from agent.incident.shelf import tidy

log = structlog.get_logger()
FOR_EVER_DAYS = 36_500
JUMP_S = 3600.0
DISTRUST_S = 86_400.0
VERIFY = "verify"
FRESH = 20
"""Newest files of a folder that are left alone."""


class Steadiness:
    """Whether the wall clock can be trusted with the age of evidence: after a jump of it, not for a day."""

    def __init__(self) -> None:
        self._last: Instant | None = None
        self._until = 0.0

    def by_age(self, now: Instant) -> bool:
        """Whether evidence may be removed for its age now."""
        last, self._last = self._last, now
        if last is not None and abs((now.wall - last.wall) - (now.mono - last.mono)) > JUMP_S:
            self._until = now.mono + DISTRUST_S
            log.warning("clock_was_set", by_s=round((now.wall - last.wall) - (now.mono - last.mono)))
        return now.mono >= self._until


class Housekeeping:
    """Retention of evidence, at the start and once an hour; verification of idle engines where the site wants it."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._steady = Steadiness()
        self._rounds = Rounds(daemon.fleet, daemon.verifier, daemon.drills)
        self._planned: tuple[str, str] | None = None
        # a job that is late is run once, never twice at a time, and house is kept however late it is
        defaults = {"max_instances": 1, "coalesce": True, "misfire_grace_time": None}
        self._scheduler = AsyncIOScheduler(job_defaults=defaults, timezone="UTC")

    async def start(self) -> None:
        self._scheduler.add_job(self._tidy, "interval", hours=1, id="tidy", next_run_time=datetime.now(UTC))
        self._scheduler.start()
        await self.plan()

    async def plan(self) -> None:
        """The schedule as the site file has it now; a round that it no longer has ends."""
        settings = self._daemon.parts.settings
        cron, where = settings.verify.cron, settings.maintenance.timezone
        planned = None if cron is None else (cron, where)
        if planned == self._planned:
            return
        self._planned = planned
        if self._scheduler.get_job(VERIFY) is not None:
            self._scheduler.remove_job(VERIFY)
        if cron is None:
            await self._rounds.stop("the site file has no schedule for it any more")
            return
        self._scheduler.add_job(self._rounds.run, trigger_of(cron, where), id=VERIFY, misfire_grace_time=LATE_S)

    def stop(self) -> None:
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    async def _tidy(self) -> None:
        settings = self._daemon.parts.settings
        shelf = settings.paths.state / "incidents"
        keep = settings.incidents
        try:
            days = keep.keep_days if self._steady.by_age(self._daemon.parts.clock.now()) else FOR_EVER_DAYS
            removed = await asyncio.to_thread(tidy, shelf, days, keep.max_bytes)
        except OSError as error:
            log.warning("tidy_failed", reason=str(error))
            return
        if removed:
            log.info("incidents_removed", ids=removed)
        try:
            plans, recipes = await self._daemon.store.kept_plans()
            await asyncio.to_thread(sweep, settings.paths.state / "hosts", plans)
            await asyncio.to_thread(sweep, settings.paths.state / "recipes", recipes)
        except (OSError, AgentError) as error:
            log.warning("sweep_failed", reason=str(error))


def sweep(folder: Path, kept: Collection[str]) -> None:
    """Removes files of plans that the state no longer has. What came lately may be of a plan that is being written."""
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime) if folder.is_dir() else []
    for file in files[:-FRESH]:
        if file.stem not in kept:
            file.unlink(missing_ok=True)
