"""Measured against claimed (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.verify.points import LeftOut, Point
from agent.verify.trace import Figure

UNITS = {"decode_tok_s": "tok/s", "prefill_tok_s": "tok/s", "ttft_ms": "ms"}


@dataclass(frozen=True, slots=True)
class Measured:
    """One point with what was measured, or why it was dropped."""

    point: Point
    figures: Mapping[str, Figure] = field(default_factory=dict)
    dropped: str = ""
    watched: bool = True
    """The engine says what it runs, so that others would have been seen."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: measured, claimed, and measured ÷ claimed. For `ttft_ms` less than 1 is better than claimed."""

    point: str
    metric: str
    measured: Figure | None
    claimed: float | None
    dropped: str = ""

    @property
    def ratio(self) -> float | None:
        if self.measured is None or not self.claimed:
            return None
        found = self.measured.value / self.claimed
        return found if math.isfinite(found) else None


def rows_of(measured: tuple[Measured, ...]) -> tuple[Row, ...]:
    """Every figure that was measured or claimed, in the order of the points."""
    return tuple(
        Row(one.point.name, metric, one.figures.get(metric), one.point.claimed.get(metric), one.dropped)
        for one in measured
        for metric in UNITS
        if metric in one.figures or metric in one.point.claimed
    )


def row_json(row: Row) -> dict[str, Any]:
    figure = row.measured
    return {
        "point": row.point,
        "metric": row.metric,
        "unit": UNITS[row.metric],
        "measured": figure.value if figure else None,
        "low": figure.low if figure else None,
        "high": figure.high if figure else None,
        "repeats": figure.repeats if figure else 0,
        "claimed": row.claimed,
        "ratio": row.ratio,
        "dropped": row.dropped,
    }


def left_json(left: tuple[LeftOut, ...]) -> list[dict[str, str]]:
    return [{"point": one.name, "why": one.why} for one in left]
