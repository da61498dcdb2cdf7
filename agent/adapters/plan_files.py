"""Plans as files, each whole or not at all: what is left of them when the state file is lost."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

Row = tuple[str, str, float, str]
"""Plan id, slug, when it was kept (seconds since the epoch), its JSON."""

NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")


class PlanFiles:
    """One folder, a file a plan: `<plan_id>.json` holds `{"slug", "at", "plan"}`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, row: Row) -> None:
        """Write one; an equal one that is there is written again, with its new time."""
        plan_id, slug, at, plan = row
        if NAME.fullmatch(plan_id) is None:
            raise OSError(f"{plan_id!r} is no name of a plan")
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = self._folder / f".{plan_id}.partial"
        with partial.open("w", encoding="utf-8") as file:
            json.dump({"slug": slug, "at": at, "plan": json.loads(plan)}, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._folder / f"{plan_id}.json")

    def drop(self, plans: Iterable[str]) -> None:
        """Those that the state no longer has."""
        for plan_id in plans:
            (self._folder / f"{plan_id}.json").unlink(missing_ok=True)

    def every(self) -> list[Row]:
        """All that can be read, oldest first; one that is damaged is left where it is."""
        files = self._folder.glob("*.json") if self._folder.is_dir() else ()
        rows = [row for file in files if (row := read(file)) is not None]
        return sorted(rows, key=lambda row: row[2])


def read(file: Path) -> Row | None:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        plan = data["plan"]
        return str(plan["plan_id"]), str(data["slug"]), float(data["at"]), json.dumps(plan)
    except (OSError, ValueError, KeyError, TypeError):
        return None
