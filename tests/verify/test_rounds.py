"""Verifications by the clock: when a round is due, whom it measures, and for whom one ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent.action.operation import Operation
from agent.action.record import Reason, State, Supervision, Takedown
from agent.daemon.drill import Drills
from agent.daemon.fleet import Fleet
from agent.daemon.rounds import Rounds, crowded, moving, next_round, shared, unused
from agent.daemon.verification import NotVerifiable, Verifier
from agent.metrics.board import Board
from agent.settings.model import Settings
from tests.metrics.boards import board

IDLE: dict[str, Any] = {"requests_running": 0, "client_connections": 0}


# ── when ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_next_round_is_known_and_none_where_none_is_wanted() -> None:
    noon = datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp()
    assert next_round(Settings(), noon) is None
    wanted = Settings.model_validate({"verify": {"cron": "0 4 * * *"}, "maintenance": {"timezone": "Europe/Berlin"}})
    assert next_round(wanted, noon) == datetime(2026, 6, 2, 2, tzinfo=UTC).timestamp()


# ── whom ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("state", "figures", "expect"),
    [
        (State.READY, IDLE, True),
        (State.READY, {**IDLE, "client_connections": 1}, False),
        (State.READY, {**IDLE, "requests_running": 1}, False),
        (State.READY, {**IDLE, "client_connections": None}, False),
        (State.READY, {**IDLE, "requests_running": None}, False),
        (State.BUSY, IDLE, False),
        (State.ASLEEP, IDLE, False),
        (State.STOPPED, IDLE, False),
    ],
)
def test_only_what_is_known_to_be_unused_is_measured(state: State, figures: dict[str, Any], expect: bool) -> None:
    """A client that is connected may ask at any moment, and what is not known is not idle."""
    assert unused(board("small", state, **figures)) is expect


def test_an_engine_that_was_not_looked_at_is_not_known_to_be_unused() -> None:
    assert not unused(replace(board("small", State.READY, **IDLE), verdict=None))


@pytest.mark.parametrize(("running", "expect"), [(8, ""), (9, "somebody uses it: 9 requests run"), (None, "")])
def test_more_than_it_sends_are_somebody_elses(running: float | None, expect: str) -> None:
    assert crowded(board("small", State.BUSY, requests_running=running), 8) == expect
    assert crowded(None, 8) == ""


def changed(state: State, **fields: Any) -> Board:
    shown = board("other", state)
    return replace(shown, record=replace(shown.record, **fields))


@pytest.mark.parametrize(
    ("other", "drilled", "expect"),
    [
        (changed(State.READY), (), ""),
        (changed(State.BACKOFF), (), ""),
        (changed(State.FAILED), (), ""),
        (changed(State.STARTING), (), "other is starting"),
        (changed(State.IMAGE), (), "other is image"),
        (changed(State.STALLED, takedown=Takedown(Reason.FAULT, "stalled")), (), "other is stalled"),
        (changed(State.READY, next_plan="p9"), (), "other is given another plan"),
        (changed(State.READY, next_plan="p9", at_window=True), (), ""),
        (changed(State.READY), ("other",), "other is drilled"),
    ],
)
def test_nothing_is_measured_beside_what_moves(other: Board, drilled: tuple[str, ...], expect: str) -> None:
    """Starts, stops, images, changes of plan and drills of any deployment; what waits for a window does nothing yet."""
    boards = {"other": other, "small": board("small", State.READY, **IDLE)}
    assert moving(boards, drilled) == expect


@pytest.mark.parametrize(
    ("running", "cards", "expect"),
    [(2, ("GPU-0",), "other is at work on its cards"), (0, ("GPU-0",), ""), (2, ("GPU-1",), ""), (2, (), ""),
     (None, ("GPU-0",), "")],
)  # fmt: skip
def test_nothing_is_measured_on_cards_that_another_works_on(
    running: float | None, cards: tuple[str, ...], expect: str
) -> None:
    own, other = board("small", State.READY, **IDLE), board("other", State.BUSY, requests_running=running)
    boards = {
        "small": replace(own, plan=replace(own.plan, gpus=("GPU-0",))),
        "other": replace(other, plan=replace(other.plan, gpus=cards)),
    }
    assert shared(boards, "small") == expect


# ── a round ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Measured:
    """A verifier that notes what it was asked for; `then` is called while one is under way."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.under_way: frozenset[str] = frozenset()
        self.refuses: set[str] = set()
        self.then: Callable[[str], object] = lambda _: None
        self.ended: list[str] = []

    async def start(self, slug: str, *_: Any) -> Operation:
        if slug in self.refuses:
            raise NotVerifiable(slug=slug, why="its recipe claims nothing")
        self.asked.append(slug)
        return Operation(slug, slug, "verify", 0.0)

    async def over(self, name: str) -> None:
        if asyncio.iscoroutine(said := self.then(name)):
            await said

    async def make_room(self, why: str) -> None:
        self.ended.append(why)


class World:
    def __init__(self, *slugs: str) -> None:
        self.boards = {slug: board(slug, State.READY, **IDLE) for slug in slugs}
        self.verifier, self.drills = Measured(), SimpleNamespace(under_way=frozenset[str]())
        self.rounds = Rounds(cast(Fleet, self), cast(Verifier, self.verifier), cast(Drills, self.drills))


async def test_all_that_rest_are_measured_one_after_the_other() -> None:
    """One that claims nothing, or is in use, costs the others nothing."""
    world = World("a", "b", "c", "d")
    world.verifier.refuses = {"b"}
    world.boards["c"] = board("c", State.BUSY, requests_running=1)
    await world.rounds.run()
    assert world.verifier.asked == ["a", "d"]


async def test_one_that_a_person_paused_is_left_alone() -> None:
    world = World("a", "b")
    paused = world.boards["a"]
    world.boards["a"] = replace(paused, record=replace(paused.record, supervision=Supervision.PAUSED))
    await world.rounds.run()
    assert world.verifier.asked == ["b"]


async def test_one_that_is_removed_meanwhile_is_passed_over() -> None:
    world = World("a", "b")
    world.verifier.then = lambda _: world.boards.pop("b", None)
    await world.rounds.run()
    assert world.verifier.asked == ["a"]


@pytest.mark.parametrize("what", ["a person's verification", "a drill", "a start"])
async def test_nothing_begins_beside_another_operation(what: str) -> None:
    world = World("a", "b")
    if what == "a drill":
        world.drills.under_way = frozenset({"b"})
    elif what == "a start":
        world.boards["b"] = board("b", State.STARTING)
    else:
        world.verifier.under_way = frozenset({"b"})
    await world.rounds.run()
    assert world.verifier.asked == []


async def test_a_schedule_that_is_taken_away_ends_its_round_and_comes_back() -> None:
    """The rest is not measured, and what is under way ends; a later schedule begins afresh."""
    world = World("a", "b")
    world.verifier.then = lambda _: world.rounds.stop("no schedule any more")
    await world.rounds.run()
    assert (world.verifier.asked, world.verifier.ended) == (["a"], ["no schedule any more"])
    world.verifier.then = lambda _: None
    await world.rounds.run()
    assert world.verifier.asked == ["a", "a", "b"]
