"""The form of the state file, version by version: a file of an older one is brought up, one step a transaction.

`user_version` in the file's header says which version it has; SQLite writes it within the transaction, so a kill at any
instruction leaves a file of the old version or of the new one. Before the first step the old file is kept beside the
new one. A step that was published is never changed: a change of the form is one more step at the end.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

Step = Sequence[str]
"""Statements that lead from one version to the next."""

FIRST: Step = (
    "CREATE TABLE IF NOT EXISTS deployment (slug TEXT PRIMARY KEY, record TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS plan (plan_id TEXT PRIMARY KEY, slug TEXT NOT NULL, at REAL NOT NULL, "
    "plan TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS plan_slug ON plan (slug, at)",
    "CREATE TABLE IF NOT EXISTS operation (id TEXT PRIMARY KEY, slug TEXT NOT NULL, created REAL NOT NULL, "
    "state TEXT NOT NULL, operation TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS event (seq INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, slug TEXT NOT NULL, "
    "kind TEXT NOT NULL, text TEXT NOT NULL, data TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS event_slug ON event (slug, seq)",
    "CREATE TABLE IF NOT EXISTS learned (slug TEXT NOT NULL, key TEXT NOT NULL, value REAL NOT NULL, at REAL NOT NULL, "
    "PRIMARY KEY (slug, key))",
)
"""Version 1. A kill while it was made could leave version 0 with some of its tables: hence IF NOT EXISTS."""

SECOND: Step = (
    # every change of a deployment asks for its open operations, and every word of progress ends what is old
    "CREATE INDEX operation_open ON operation (slug, created) WHERE state = 'running'",
    "CREATE INDEX operation_created ON operation (created)",
)
"""Version 2: operations are found without reading all of them. Records may say what restart waits (`degraded`)."""

STEPS: tuple[Step, ...] = (FIRST, SECOND)
VERSION = len(STEPS)


def version_of(db: sqlite3.Connection) -> int:
    """0 of a file that nobody has written to."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def bring_up(db: sqlite3.Connection, path: Path | None, steps: Sequence[Step] = STEPS) -> None:
    """Bring an open file to the newest version; `path` is where it lies, None for a copy in memory.

    Raises sqlite3.Error and OSError: the file is then as it was, or a whole number of steps further.
    """
    found = version_of(db)
    if path is not None and 0 < found < len(steps):
        keep(db, kept_as(path, found))
    for version in range(found + 1, len(steps) + 1):
        take(db, steps[version - 1], version)


def take(db: sqlite3.Connection, step: Step, version: int) -> None:
    """One step and its number, both or neither."""
    db.execute("BEGIN IMMEDIATE")
    try:
        for statement in step:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {version:d}")
    except BaseException:
        db.rollback()
        raise
    db.commit()


def kept_as(path: Path, version: int) -> Path:
    """Where the file of an older version is kept."""
    return path.with_name(f"{path.name}.version-{version}")


def keep(db: sqlite3.Connection, target: Path) -> None:
    """A whole copy, or none, with the rights of the file itself; what is in the log of a kill is in it, too."""
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    partial.touch(0o600)
    db.execute("VACUUM INTO ?", (str(partial),))
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(target)
