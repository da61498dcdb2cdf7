"""Verifications that the clock begins: engines that nobody uses, beside nothing else, and gone when somebody comes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

import structlog

from agent.action.record import State, Supervision
from agent.daemon.drill import Drills
from agent.daemon.fleet import Fleet
from agent.daemon.nightly import trigger_of
from agent.daemon.verification import Verifier, VerifyTerms
from agent.errors import AgentError
from agent.metrics.board import Board
from agent.quantity import counted
from agent.settings.model import Settings

log = structlog.get_logger()
SCHEDULE = "schedule"
"""Who asked, where nobody did."""
MOVING = frozenset(
    {
        State.PENDING,
        State.PLANNING,
        State.PREFLIGHT,
        State.IMAGE,
        State.STARTING,
        State.STOPPING,
        State.RELEASING,
    }
)
LATE_S = 3600
"""A round that comes later than this (the host slept) is left out: its night is over."""


def next_round(settings: Settings, wall: float) -> float | None:
    """When the next one is due, in seconds of the epoch; None where the site wants none."""
    if settings.verify.cron is None:
        return None
    trigger = trigger_of(settings.verify.cron, settings.maintenance.timezone)
    found = trigger.get_next_fire_time(None, datetime.fromtimestamp(wall, UTC))
    return None if found is None else found.timestamp()


class Rounds:
    """One after the other, one round at a time (the scheduler sees to that)."""

    def __init__(self, fleet: Fleet, verifier: Verifier, drills: Drills) -> None:
        self._fleet = fleet
        self._verifier = verifier
        self._drills = drills
        self._going = False

    async def run(self) -> None:
        """Measure every engine that nobody uses, in short; what is not to be measured now is left for the next time."""
        self._going = True
        for slug in sorted(self._fleet.boards):
            if not self._going:
                return
            if why := self._unfit(slug):
                log.info("not_verified", recipe=slug, reason=why)
                continue
            await self._one(slug)
        self._going = False

    async def _one(self, slug: str) -> None:
        try:
            operation = await self._verifier.start(slug, VerifyTerms(quick=True), SCHEDULE, self.in_the_way)
        except AgentError as error:  # it was stopped a moment ago, or has no claims
            log.info("not_verified", recipe=slug, reason=error.text)
            return
        await self._verifier.over(operation.id)

    async def stop(self, why: str) -> None:
        """No more of this round."""
        self._going = False
        await self._verifier.make_room(why)

    def _unfit(self, slug: str) -> str:
        """Why it is not measured now."""
        board = self._fleet.boards.get(slug)
        if board is None:
            return "it was removed"
        if board.record.supervision is Supervision.PAUSED:
            return "it is paused by a person"
        if self._verifier.under_way:
            return f"{min(self._verifier.under_way)} is being verified"
        return self.in_the_way(slug, 0) or ("" if unused(board) else "it is in use, or not known not to be")

    def in_the_way(self, slug: str, most: int) -> str:
        """Why a measurement of `most` requests at once that nobody waits for gives way; empty where it need not."""
        boards = self._fleet.boards
        return crowded(boards.get(slug), most) or shared(boards, slug) or moving(boards, self._drills.under_way)


def unused(board: Board) -> bool:
    """Ready, with no request and no client, both known."""
    figures = board.verdict.figures if board.verdict else {}
    quiet = figures.get("requests_running") == 0 and figures.get("client_connections") == 0
    return board.record.state is State.READY and quiet


def crowded(board: Board | None, most: int) -> str:
    """Others are served. Connections say less: the measurement's own stay for a moment after their requests."""
    figures: Mapping[str, Any] = board.verdict.figures if board is not None and board.verdict else {}
    running = figures.get("requests_running")
    if not isinstance(running, int | float) or running <= most:
        return ""
    return f"somebody uses it: {counted(running, 'request runs', 'requests run')}"


def shared(boards: Mapping[str, Board], slug: str) -> str:
    """Another deployment on one of its cards is at work: it would be slowed, and what is measured would say nothing."""
    own = boards.get(slug)
    cards = set(own.plan.gpus) if own is not None else set()
    for other, board in sorted(boards.items()):
        if other != slug and cards & set(board.plan.gpus) and crowded(board, 0):
            return f"{other} is at work on its cards"
    return ""


def moving(boards: Mapping[str, Board], drilled: Collection[str]) -> str:
    """Something else is done on this host: what is started, stopped or prepared takes disk, processor and cards."""
    if drilled:
        return f"{min(drilled)} is drilled"
    for slug, board in sorted(boards.items()):
        record = board.record
        if record.takedown is not None or record.state in MOVING:
            return f"{slug} is {record.state.value}"
        if record.next_plan not in (None, record.plan_id) and not record.at_window:
            return f"{slug} is given another plan"
    return ""
