"""The report of a verification: what was measured, held against what is claimed, and all that makes it again."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from agent.clock import timestamp
from agent.errors import AgentError
from agent.metrics.board import Verified
from agent.plan.model import Plan
from agent.quantity import counted
from agent.verify.ask import completion
from agent.verify.compare import Measured, left_json, row_json, rows_of
from agent.verify.measure import WARM_TOKENS, WARM_UPS
from agent.verify.plausible import Limits, limits_json
from agent.verify.points import LeftOut


class NotKept(AgentError):
    """It was measured, and the report has no place."""

    code = "measure.not_kept"
    message = "its report cannot be written: {why}"


@dataclass(frozen=True, slots=True)
class Method:
    """How it was measured: `seed` makes the same prompts again (`agent.verify.prompt`)."""

    seed: str
    repeats: int
    quick: bool


def report_of(
    plan: Plan, measured: Sequence[Measured], left: tuple[LeftOut, ...], how: tuple[Method, Limits], now: float
) -> dict[str, Any]:
    """Everything that is needed to do it again, and what came of it."""
    method, limits = how
    return {
        "slug": plan.recipe.slug,
        "at": timestamp(now),
        "plan_id": plan.plan_id,
        "recipe": {"revision": plan.recipe.revision, "sha256": plan.recipe.sha256},
        "gpus": list(plan.gpus),
        "quick": method.quick,
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


def ratios_of(report: Mapping[str, Any]) -> dict[str, float]:
    """Point and metric → measured ÷ claimed; a report of another form has none."""
    rows = report.get("rows")
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    pairs = [(f"{row.get('point')} {row.get('metric')}", row.get("ratio")) for row in found]
    return {name: float(ratio) for name, ratio in pairs if isinstance(ratio, int | float) and math.isfinite(ratio)}


def verified_of(report: Mapping[str, Any]) -> Verified:
    """When it was made and what came of it; a report of another form says neither."""
    try:
        return Verified(datetime.fromisoformat(str(report.get("at"))).timestamp(), sentence(report))
    except (ValueError, OverflowError):
        return Verified()


def sentence(report: Mapping[str, Any]) -> str:
    """The report in one line."""
    found = ratios_of(report)
    ratios = [ratio for name, ratio in found.items() if not name.endswith(" ttft_ms")]
    if not ratios:
        return "no rate could be held against a claim"
    return f"rates are {min(ratios):.2f} to {max(ratios):.2f} of what is claimed, over {counted(len(ratios), 'point')}"


def write_report(folder: Path, report: Mapping[str, Any]) -> None:
    """Whole or not at all. Raises NotKept."""
    path = folder / f"{report['slug']}.json"
    partial = path.with_suffix(".partial")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(report, indent=1))
        os.replace(partial, path)  # noqa: PTH105
    except OSError as error:
        raise NotKept(why=str(error)) from error


def read_report(path: Path) -> dict[str, Any] | None:
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return report if isinstance(report, dict) and "rows" in report and "slug" in report else None


def read_reports(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return [report for file in files if (report := read_report(file)) is not None]
