"""The last quarter of an hour of each deployment: what the status page draws of the time before it was opened."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agent.metrics.board import Board

SPAN_S = 900.0
STEP_S = 5.0
"""Boards come more often than a plot a hand wide can show."""


@dataclass(frozen=True, slots=True)
class Point:
    """What was known at one moment, `at` in seconds of the epoch; None where it was not."""

    at: float
    tokens_per_s: float | None = None
    kv_ratio: float | None = None
    running: float | None = None
    waiting: float | None = None

    @property
    def blank(self) -> bool:
        """Nothing was known: no verdict yet, or none with figures."""
        return (self.tokens_per_s, self.kv_ratio, self.running, self.waiting) == (None, None, None, None)


class Trails:
    """A bounded trail of points a deployment; nothing is kept over a restart of the agent."""

    def __init__(self) -> None:
        self._points: dict[str, deque[Point]] = {}

    def see(self, board: Board) -> None:
        """Take a board. One right after the last point adds nothing, unless it is the first that knows something."""
        points = self._points.setdefault(board.record.slug, deque(maxlen=int(SPAN_S / STEP_S) + 1))
        point = of(board)
        if points and 0 <= board.at - points[-1].at < STEP_S:
            if not points[-1].blank or point.blank:
                return
            points.pop()  # an engine that has just come up is drawn at once, not a step later
        points.append(point)

    def of(self, slugs: Collection[str]) -> Mapping[str, tuple[Point, ...]]:
        """The trails of these deployments, oldest point first; all others are forgotten."""
        for gone in self._points.keys() - set(slugs):
            del self._points[gone]
        return {slug: tuple(points) for slug, points in self._points.items()}


def of(board: Board) -> Point:
    """What this board knows."""
    figures = board.verdict.figures if board.verdict else {}
    return Point(
        board.at,
        number(figures, "decode_tokens_per_second"),
        number(figures, "kv_cache_usage_ratio"),
        number(figures, "requests_running"),
        number(figures, "requests_waiting"),
    )


def number(figures: Mapping[str, object], key: str) -> float | None:
    value = figures.get(key)
    return float(value) if isinstance(value, int | float) else None
