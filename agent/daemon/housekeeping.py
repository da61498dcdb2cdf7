"""What is done by the clock: APScheduler's jobs are short and touch no engine."""

from __future__ import annotations

import asyncio

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from agent.daemon.assemble import Daemon
from agent.incident.shelf import tidy

log = structlog.get_logger()


class Housekeeping:
    """Retention of evidence, once an hour."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        # a job that is late is run once, never twice at a time, and never dropped
        defaults = {"max_instances": 1, "coalesce": True, "misfire_grace_time": None}
        self._scheduler = AsyncIOScheduler(job_defaults=defaults, timezone="UTC")

    def start(self) -> None:
        self._scheduler.add_job(self._tidy, "interval", hours=1, id="tidy")
        self._scheduler.start()

    def stop(self) -> None:
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    async def _tidy(self) -> None:
        settings = self._daemon.parts.settings
        shelf = settings.paths.state / "incidents"
        keep = settings.incidents
        try:
            removed = await asyncio.to_thread(tidy, shelf, keep.keep_days, keep.max_bytes)
        except OSError as error:
            log.warning("tidy_failed", reason=str(error))
            return
        if removed:
            log.info("incidents_removed", ids=removed)
