"""State in SQLite: one file, written by one thread, each call one transaction; plans lie beside it as files, too.

A file that is damaged is moved aside and begun anew. Then the plans come from their files, and the deployments from the
labels of their containers (`agent.daemon.rebuild`).
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from agent.action.codec import operation_from_json, record_from_json, record_to_json
from agent.action.operation import Operation
from agent.action.record import Deployment
from agent.action.store import Event, StoreTrouble
from agent.adapters import state_bounds as bounds
from agent.adapters.plan_files import PlanFiles
from agent.adapters.sqlite_schema import VERSION, bring_up, version_of

T = TypeVar("T")
THIN_EVENTS_EVERY = 256
WAL_BYTES = 4_000_000
"""What the log beside the file may keep on the disk once it is written back; SQLite checkpoints it at 1000 pages."""
# a query asks only for what is wanted: an `OR ? IS NULL` would keep SQLite from every index
OPERATIONS = {
    (False, False): "SELECT operation FROM operation ORDER BY created",
    (True, False): "SELECT operation FROM operation WHERE slug = ? ORDER BY created",
    (False, True): "SELECT operation FROM operation WHERE state = 'running' ORDER BY created",
    (True, True): "SELECT operation FROM operation WHERE state = 'running' AND slug = ? ORDER BY created",
}
"""By whether one deployment is asked about, and open ones alone."""
EVENTS = "SELECT seq, at, slug, kind, text, data FROM event WHERE seq > ? ORDER BY seq DESC LIMIT ?"
EVENTS_OF_ONE = "SELECT seq, at, slug, kind, text, data FROM event WHERE slug = ? AND seq > ? ORDER BY seq DESC LIMIT ?"


class StateTrouble(StoreTrouble):
    """The state file cannot be read or written."""

    message = "cannot use the state file {path}: {why}"
    hint = "check its file system and rights; containers go on running and are adopted once it can be read again"


class NewerState(StateTrouble):
    """Written by a newer agent: refused, not eaten."""

    code = "state.newer"
    message = (
        "cannot use the state file {path}: a newer recipe-agent wrote it (version {found}, this one knows {known})"
    )
    hint = (
        "install that version again; or put {path}.version-{known}, which it kept of the file of before, in its place "
        "(what was done since is lost); or move the file away to start from nothing"
    )


class SqliteStore:
    """The state file. WAL, so that a kill leaves the old or the new; every call runs on the store's own thread.

    `owner`: the one agent that holds the lock of the state folder. It alone makes the file, brings it to a newer
    version and moves a damaged one aside. A command that only reads changes nothing: it is told of damage, and reads an
    older version from a copy in memory.
    """

    def __init__(self, path: Path, *, owner: bool = False) -> None:
        self._path = path
        self._plans = PlanFiles(path.parent / "plans")
        self._owner = owner
        self._rebuilt: str | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state")
        self._db: sqlite3.Connection | None = None

    @property
    def rebuilt(self) -> str | None:
        return self._rebuilt

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._db is None:
                self._db = self._opened()
            with self._db:
                return work(self._db)
        except (sqlite3.Error, OSError) as error:
            raise StateTrouble(path=self._path, why=error) from error

    def _opened(self) -> sqlite3.Connection:
        """The state file, sound; for its owner a new one with the kept plans where it is damaged or gone."""
        if not self._owner:
            return _read_only(self._path)
        lost = self._path.exists() and damage(self._path)
        if lost:
            aside = move_aside(self._path)
            self._rebuilt = f"the state file was damaged ({lost}) and is kept as {aside.name}"
        fresh = not self._path.exists() or self._path.stat().st_size == 0
        db = _open(self._path)
        if not fresh:
            # without room for its log or for a second copy it stays as large as it is: an agent can start all the same
            with suppress(sqlite3.OperationalError), db:
                self._plans.drop(bounds.thin_all(db))
                bounds.give_back(db)
            return db
        kept = self._plans.every()
        db.executemany("REPLACE INTO plan VALUES (?, ?, ?, ?)", kept)
        db.commit()
        if kept and self._rebuilt is None:
            self._rebuilt = "the state file was gone or empty, while plans of earlier deployments were kept"
        return db

    async def load(self) -> tuple[Deployment, ...]:
        rows = await self._run(lambda db: db.execute("SELECT record FROM deployment ORDER BY slug").fetchall())
        return tuple(record_from_json(json.loads(row[0])) for row in rows)

    async def save(self, record: Deployment) -> None:
        text = json.dumps(record_to_json(record))
        await self._run(lambda db: db.execute("REPLACE INTO deployment VALUES (?, ?)", (record.slug, text)))

    async def forget(self, slug: str) -> None:
        await self._run(lambda db: db.execute("DELETE FROM deployment WHERE slug = ?", (slug,)))

    async def save_plan(self, slug: str, plan: Mapping[str, Any]) -> None:
        row = (plan["plan_id"], slug, time.time(), json.dumps(plan))

        def write(db: sqlite3.Connection) -> None:
            self._plans.keep(row)
            db.execute("REPLACE INTO plan VALUES (?, ?, ?, ?)", row)
            self._plans.drop(bounds.thin_plans(db, slug))

        await self._run(write)

    async def plan(self, plan_id: str) -> Mapping[str, Any] | None:
        row = await self._run(lambda db: db.execute("SELECT plan FROM plan WHERE plan_id = ?", (plan_id,)).fetchone())
        return None if row is None else json.loads(row[0])

    async def history(self, slug: str) -> tuple[Mapping[str, Any], ...]:
        query = "SELECT plan_id, at FROM plan WHERE slug = ? ORDER BY at"
        rows = await self._run(lambda db: db.execute(query, (slug,)).fetchall())
        return tuple({"plan_id": plan_id, "at": at} for plan_id, at in rows)

    async def kept_plans(self) -> tuple[frozenset[str], frozenset[str]]:
        """Ids of all plans, and the hashes of the recipes that they were made of: what else belongs to them stays."""
        query = "SELECT plan_id, json_extract(plan, '$.recipe.sha256') FROM plan"
        rows = await self._run(lambda db: db.execute(query).fetchall())
        return frozenset(str(row[0]) for row in rows), frozenset(str(row[1]) for row in rows)

    async def save_operation(self, operation: Operation) -> None:
        row = (operation.id, operation.slug, operation.created, operation.state, json.dumps(asdict(operation)))

        def write(db: sqlite3.Connection) -> None:
            db.execute("REPLACE INTO operation VALUES (?, ?, ?, ?, ?)", row)
            bounds.thin_operations(db)

        await self._run(write)

    async def operation(self, operation_id: str) -> Operation | None:
        query = "SELECT operation FROM operation WHERE id = ?"
        row = await self._run(lambda db: db.execute(query, (operation_id,)).fetchone())
        return None if row is None else operation_from_json(json.loads(row[0]))

    async def operations(self, slug: str | None = None, *, open_only: bool = False) -> tuple[Operation, ...]:
        query, given = OPERATIONS[slug is not None, open_only], () if slug is None else (slug,)
        rows = await self._run(lambda db: db.execute(query, given).fetchall())
        return tuple(operation_from_json(json.loads(row[0])) for row in rows)

    async def add_event(self, event: Event) -> Event:
        row = (event.at, event.slug, event.kind, event.text, json.dumps(dict(event.data)))

        def write(db: sqlite3.Connection) -> int:
            cursor = db.execute("INSERT INTO event (at, slug, kind, text, data) VALUES (?, ?, ?, ?, ?)", row)
            seq = int(cursor.lastrowid or 0)
            if seq % THIN_EVENTS_EVERY == 0:
                bounds.thin_events(db, seq)
            return seq

        return replace(event, seq=await self._run(write))

    async def events(self, slug: str | None = None, *, after: int = 0, limit: int = 200) -> tuple[Event, ...]:
        query, given = (EVENTS, (after, limit)) if slug is None else (EVENTS_OF_ONE, (slug, after, limit))
        rows = await self._run(lambda db: db.execute(query, given).fetchall())
        return tuple(
            Event(seq=seq, at=at, slug=owner, kind=kind, text=text, data=json.loads(data))
            for seq, at, owner, kind, text, data in reversed(rows)
        )

    async def learn(self, slug: str, figures: Mapping[str, float]) -> None:
        rows = [(slug, key, value, time.time()) for key, value in figures.items()]
        await self._run(lambda db: db.executemany("REPLACE INTO learned VALUES (?, ?, ?, ?)", rows))

    async def learned(self, slug: str) -> Mapping[str, float]:
        query = "SELECT key, value FROM learned WHERE slug = ?"
        return dict(await self._run(lambda db: db.execute(query, (slug,)).fetchall()))

    async def close(self) -> None:
        def shut() -> None:
            if self._db is not None:
                self._db.close()
                self._db = None

        await asyncio.get_running_loop().run_in_executor(self._thread, shut)
        self._thread.shutdown(wait=False)


def damage(path: Path) -> str | None:
    """What is wrong with a state file; None where it is sound, or only in use."""
    try:
        db = sqlite3.connect(path, timeout=5.0)
        try:
            said = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
        finally:
            db.close()
    except sqlite3.OperationalError:
        return None  # locked, no right, no room: opening it says so
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if said == "ok" else said.replace("\n", " ")


def move_aside(path: Path) -> Path:
    """Keep a damaged file and its log under a name that is free; the first of them is never overwritten."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = next(
        name for number in range(1000) if not (name := path.with_name(f"{path.name}.damaged-{stamp}-{number}")).exists()
    )
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(f"{path.name}{suffix}")
        if beside.exists():
            beside.rename(aside.with_name(f"{aside.name}{suffix}"))
    return path.rename(aside)


def _open(path: Path) -> sqlite3.Connection:
    """For its owner: made where it is not there, brought to the newest version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path, timeout=5.0, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        # NORMAL loses nothing to a kill of the agent; FULL also keeps the last step through a power cut, which is a
        # reboot, after which what should run is started again whatever the last step was
        db.execute("PRAGMA synchronous = NORMAL")
        _no_newer(db, path)
        bring_up(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _read_only(path: Path) -> sqlite3.Connection:
    """For a command beside the agent, or without one: what is not there is read as an empty state."""
    found = _nothing()
    if not path.exists() or path.stat().st_size == 0:
        bring_up(found, None)
        return found
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=5.0, check_same_thread=False)
    try:
        _no_newer(db, path)
        if version_of(db) == VERSION:
            db.execute("PRAGMA query_only = ON")
            return db
        db.backup(found)
    except BaseException:
        db.close()
        raise
    db.close()
    bring_up(found, None)
    return found


def _nothing() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", check_same_thread=False)


def _no_newer(db: sqlite3.Connection, path: Path) -> None:
    if (found := version_of(db)) > VERSION:
        raise NewerState(path=path, found=found, known=VERSION)
