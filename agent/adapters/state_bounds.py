"""What the state keeps of the past, by count and in the order of writing: a clock that is set wrong removes nothing.

SQLite gives each row that is written, and written again, the highest `rowid`.

What a person needs stays: every plan that a deployment or an open operation names, and of each deployment its last
plans, operations and events, however much trouble the others have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

PLANS_EACH = 20
"""Of one deployment: what `agentctl history` shows and `rollback` can go back to. A plan is about 10 kB."""
PLANS_GONE = 200
"""Of all deployments that were removed, together."""
EVENTS = 20_000
"""Of all deployments, the newest; an event is about 200 bytes."""
EVENTS_EACH = 500
"""Of one deployment at least, and of the agent's own, however many the others have."""
OPERATIONS = 500
OPERATIONS_EACH = 20
OPERATIONS_OVER = 50
"""So many more before they are thinned out: it reads the whole table."""
SPARE_BYTES = 8_000_000
"""Free pages that a file may keep: what is removed leaves room that later rows use."""


def thin_plans(db: sqlite3.Connection, slug: str) -> list[str]:
    """Removes what is beyond the bounds; the ids of what is gone."""
    older = "SELECT plan_id FROM plan WHERE slug = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?"
    gone = (
        "SELECT plan_id FROM plan WHERE slug NOT IN (SELECT slug FROM deployment) AND slug != ? "
        "ORDER BY rowid DESC LIMIT -1 OFFSET ?"
    )
    found = [*db.execute(older, (slug, PLANS_EACH)), *db.execute(gone, (slug, PLANS_GONE))]
    unnamed = _unnamed(db, [str(row[0]) for row in found])
    db.executemany("DELETE FROM plan WHERE plan_id = ?", [(plan_id,) for plan_id in unnamed])
    return unnamed


def _unnamed(db: sqlite3.Connection, plans: list[str]) -> list[str]:
    """Those that no record and no open operation speaks of."""
    if not plans:
        return []
    records = [str(row[0]) for row in db.execute("SELECT record FROM deployment")]
    records += [str(row[0]) for row in db.execute("SELECT operation FROM operation WHERE state = 'running'")]
    return [plan_id for plan_id in plans if not any(plan_id in text for text in records)]


def thin_events(db: sqlite3.Connection, newest: int) -> None:
    """`newest` is the number of the event that was just written."""
    last = newest - EVENTS
    gone = "DELETE FROM event WHERE seq <= ? AND slug != '' AND slug NOT IN (SELECT slug FROM deployment)"
    db.execute(gone, (last,))
    for (slug,) in db.execute("SELECT DISTINCT slug FROM event WHERE seq <= ?", (last,)).fetchall():
        first = "SELECT seq FROM event WHERE slug = ? ORDER BY seq DESC LIMIT 1 OFFSET ?"
        kept = db.execute(first, (slug, EVENTS_EACH - 1)).fetchone()
        if kept is not None:
            db.execute("DELETE FROM event WHERE slug = ? AND seq <= ? AND seq < ?", (slug, last, kept[0]))


def thin_operations(db: sqlite3.Connection) -> None:
    """The newest of all and of each deployment stay, and whatever is under way."""
    if _count(db, "operation") <= OPERATIONS + OPERATIONS_OVER:
        return
    db.execute(
        "DELETE FROM operation WHERE state != 'running' "
        "AND id NOT IN (SELECT id FROM operation ORDER BY rowid DESC LIMIT ?1) "
        "AND (slug NOT IN (SELECT slug FROM deployment) OR id NOT IN (SELECT id FROM (SELECT id, row_number() OVER "
        "(PARTITION BY slug ORDER BY rowid DESC) AS place FROM operation) WHERE place <= ?2))",
        (OPERATIONS, OPERATIONS_EACH),
    )


def _count(db: sqlite3.Connection, table: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - our own word


def thin_all(db: sqlite3.Connection) -> list[str]:
    """A file as an agent before these bounds may have left it; the ids of plans that are gone."""
    slugs: Iterable[tuple[str]] = db.execute("SELECT DISTINCT slug FROM plan").fetchall()
    gone = [plan_id for (slug,) in slugs for plan_id in thin_plans(db, slug)]
    thin_events(db, int(db.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()[0]))
    thin_operations(db)
    db.commit()
    return gone


def give_back(db: sqlite3.Connection) -> None:
    """The file made smaller where most of it is free: removed rows leave their pages in it."""
    page, free, pages = (int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in
                         ("page_size", "freelist_count", "page_count"))  # fmt: skip
    if free * page > SPARE_BYTES and 2 * free > pages:
        db.execute("VACUUM")
