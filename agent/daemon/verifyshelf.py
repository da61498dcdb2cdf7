"""Where reports of verifications lie: of each deployment the newest, and beside it the newest of all points in full."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.daemon.verifyreport import following, in_full
from agent.errors import AgentError

FULL = "full"
"""Folder of those that were made in full and have given their place to one that was not."""


class NotKept(AgentError):
    """It was measured, and the report has no place."""

    code = "measure.not_kept"
    message = "its report cannot be written: {why}"


def keep_report(folder: Path, report: dict[str, Any]) -> dict[str, Any]:
    """Write it down, whole or not at all, as it is kept: with what the one before knows. Raises NotKept.

    What was measured in full outlives what is measured in short, by the schedule or by a person.
    """
    path = folder / f"{report['slug']}.json"
    before = read_report(path)
    kept = following(report, before)
    try:
        if before is not None and in_full(before) and not in_full(kept):
            put(folder / FULL / path.name, before)
        put(path, kept)
    except OSError as error:
        raise NotKept(why=str(error)) from error
    return kept


def put(path: Path, report: Mapping[str, Any]) -> None:
    partial = path.with_suffix(".partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial.write_text(json.dumps(report, indent=1))
    os.replace(partial, path)  # noqa: PTH105


def last_report(folder: Path, slug: str, *, full: bool) -> dict[str, Any] | None:
    """The newest of a deployment, or the newest in full."""
    newest = read_report(folder / f"{slug}.json")
    if not full or (newest is not None and in_full(newest)):
        return newest
    return read_report(folder / FULL / f"{slug}.json")


def read_report(path: Path) -> dict[str, Any] | None:
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return report if isinstance(report, dict) and "rows" in report and "slug" in report else None


def read_reports(folder: Path) -> list[dict[str, Any]]:
    """The newest of each deployment."""
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return [report for file in files if (report := read_report(file)) is not None]
