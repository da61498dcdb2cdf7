"""The trail: bounded, evenly spaced, and forgotten with its deployment."""

from __future__ import annotations

from typing import Any

from agent.action.record import Deployment
from agent.metrics.board import Board
from agent.metrics.trail import SPAN_S, STEP_S, Trails
from agent.verdict.model import Judged, Verdict
from tests.plan import build

PLAN = build.plan()


def board(at: float, slug: str = "demo", **figures: Any) -> Board:
    verdict = Verdict(Judged.BUSY, "why", figures=figures)
    return Board(Deployment(slug, "p1"), PLAN, "process", at, verdict=verdict)


def test_boards_that_come_fast_make_one_point() -> None:
    """A plot a hand wide shows no half seconds, and a day of them would not be bounded."""
    trails = Trails()
    for tick in range(40):
        trails.see(board(tick * 0.5, requests_running=tick))
    assert [one.at for one in trails.of({"demo"})["demo"]] == [0.0, STEP_S, 2 * STEP_S, 3 * STEP_S]


def test_it_keeps_the_last_quarter_of_an_hour() -> None:
    """And no more, however long the agent runs."""
    trails = Trails()
    for tick in range(2000):
        trails.see(board(tick * STEP_S))
    points = trails.of({"demo"})["demo"]
    assert points[-1].at - points[0].at == SPAN_S


def test_unknown_is_kept_as_unknown() -> None:
    """A look that could not read the engine leaves a gap, and no zero."""
    trails = Trails()
    trails.see(board(0.0, requests_running=3, kv_cache_usage_ratio=0.5))
    trails.see(board(10.0))
    first, second = trails.of({"demo"})["demo"]
    assert (first.running, first.kv_ratio, first.waiting) == (3.0, 0.5, None)
    assert (second.running, second.kv_ratio) == (None, None)


def test_what_is_first_known_is_drawn_at_once() -> None:
    """A page opened right after a start has a curve: the blank look before it does not hold it back."""
    trails = Trails()
    trails.see(board(0.0))
    trails.see(board(0.5))
    trails.see(board(1.0, requests_running=2))
    trails.see(board(1.5, requests_running=3))
    assert [(one.at, one.running) for one in trails.of({"demo"})["demo"]] == [(1.0, 2.0)]


def test_a_clock_that_is_set_back_stops_nothing() -> None:
    """The next board is a point again."""
    trails = Trails()
    trails.see(board(1000.0))
    trails.see(board(10.0))
    assert len(trails.of({"demo"})["demo"]) == 2


def test_a_removed_deployment_leaves_nothing() -> None:
    """Also when another one of the name comes later."""
    trails = Trails()
    trails.see(board(0.0))
    trails.see(board(0.0, slug="other"))
    assert set(trails.of({"other"})) == {"other"}
    assert set(trails.of({"other", "demo"})) == {"other"}
