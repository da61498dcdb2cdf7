"""The report of a verification: what was measured, held against what is claimed, and all that makes it again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agent.clock import timestamp
from agent.metrics.board import Verified
from agent.plan.model import Plan
from agent.quantity import counted
from agent.verify.ask import completion
from agent.verify.compare import Measured, left_json, row_json, rows_of
from agent.verify.measure import WARM_TOKENS, WARM_UPS
from agent.verify.plausible import Limits, limits_json
from agent.verify.points import MOST_POINTS, LeftOut

MOST_EARLIER = 3 * MOST_POINTS
"""Rows of earlier reports that a report takes along, the newest first: of all figures of a night's points."""


@dataclass(frozen=True, slots=True)
class Method:
    """How it was measured: `seed` makes the same prompts again (`agent.verify.prompt`).

    `only`: words that the points' names were chosen by; `by`: who asked.
    """

    seed: str
    repeats: int
    quick: bool
    only: tuple[str, ...] = ()
    by: str = ""


def report_of(
    plan: Plan, measured: Sequence[Measured], left: tuple[LeftOut, ...], how: tuple[Method, Limits], now: float
) -> dict[str, Any]:
    """Everything that is needed to do it again, and what came of it."""
    method, limits = how
    return {
        "slug": plan.recipe.slug,
        "at": timestamp(now),
        "by": method.by,
        "plan_id": plan.plan_id,
        "recipe": {"revision": plan.recipe.revision, "sha256": plan.recipe.sha256},
        "gpus": list(plan.gpus),
        "quick": method.quick,
        "only": list(method.only),
        "method": method_json(plan, method),
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
                "watched": one.watched,
            }
            for one in measured
        ],
        "rows": [row_json(row) for row in rows_of(tuple(measured))],
        "left_out": left_json(left),
        "limits": limits_json(limits),
    }


def method_json(plan: Plan, method: Method) -> dict[str, Any]:
    """What was sent, but for the prompts' text, and in which order of rounds."""
    sent = completion(plan.engine, "", 0) if plan.engine else None
    body = (sent.body or {}) if sent else {}
    fixed = {key: value for key, value in body.items() if key not in ("prompt", "max_tokens")}
    return {
        "seed": method.seed,
        "repeats": method.repeats,
        "warm_ups": WARM_UPS,
        "warm_up_tokens": WARM_TOKENS,
        "request": {"path": sent.path, "body": fixed} if sent else None,
    }


def following(report: dict[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """A report in the place of an earlier one, with what that one knows and it does not: the newest measurement of each
    other figure on the same plan, and when all was last measured in full."""
    full = next((one for one in (report, before) if one is not None and in_full(one)), None)
    last_full = (before or {}).get("last_full") if full is None else full.get("at")
    return {**report, "last_full": last_full, "earlier": earlier(report, before or {})}


def in_full(report: Mapping[str, Any]) -> bool:
    """Of all points that this launch can reach, with all repeats."""
    return not report.get("quick") and not report.get("only")


def earlier(report: Mapping[str, Any], before: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of `before`, and those that it took along itself, each with when, for whom and how it was measured."""
    if before.get("plan_id") != report.get("plan_id"):
        return []
    origin = {key: before.get(key) for key in ("at", "by", "quick")}
    known = {figure_of(row) for row in rows_in(report, "rows") if row.get("measured") is not None}
    own = [{**row, **origin} for row in rows_in(before, "rows") if row.get("measured") is not None]
    return [row for row in own + rows_in(before, "earlier") if figure_of(row) not in known][:MOST_EARLIER]


def rows_in(report: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Its rows; a report of another form has none."""
    rows = report.get(key)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def figure_of(row: Mapping[str, Any]) -> str:
    """The label of `claim_ratio`."""
    return f"{row.get('point')} {row.get('metric')}"


def ratios_of(report: Mapping[str, Any]) -> dict[str, float]:
    """Point and metric → measured ÷ claimed, of the newest measurement of each."""
    return ratios_in(report, "earlier") | ratios_in(report, "rows")


def ratios_in(report: Mapping[str, Any], key: str) -> dict[str, float]:
    pairs = [(figure_of(row), row.get("ratio")) for row in rows_in(report, key)]
    return {name: float(ratio) for name, ratio in pairs if isinstance(ratio, int | float) and math.isfinite(ratio)}


def verified_of(report: Mapping[str, Any]) -> Verified:
    """When it was made and what came of it; a report of another form says neither."""
    try:
        return Verified(datetime.fromisoformat(str(report.get("at"))).timestamp(), sentence(report))
    except (ValueError, OverflowError):
        return Verified()


def sentence(report: Mapping[str, Any]) -> str:
    """The report in one line."""
    now, before = (span(ratios_in(report, key)) for key in ("rows", "earlier"))
    said = f"rates are {now[0]} of what is claimed, over {now[1]}" if now else "no rate could be held against a claim"
    return f"{said}; earlier {before[0]}, over {before[1]} more" if before else said


def span(ratios: Mapping[str, float]) -> tuple[str, str] | None:
    """The least and the most of the rates, and over how many; None without any."""
    rates = [ratio for name, ratio in ratios.items() if not name.endswith(" ttft_ms")]
    return (f"{min(rates):.2f} to {max(rates):.2f}", counted(len(rates), "point")) if rates else None
