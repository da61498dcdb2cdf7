"""A state file of an older version is brought up whole or not at all, and its old form is kept beside it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.action.operation import Operation
from agent.action.record import Deployment, State
from agent.action.store import StoreTrouble
from agent.adapters import sqlite_schema
from agent.adapters.sqlite_schema import STEPS, VERSION, bring_up, kept_as, version_of
from agent.adapters.sqlite_store import NewerState, SqliteStore
from tests.lab.place import REPOSITORY

RECORD = {
    "slug": "demo", "plan_id": "p1", "desired": "running", "supervision": "active", "state": "ready", "since": 5.0,
    "why": "ready", "step": "", "generation": 3, "container": "c", "boot_id": "b", "started_at": 1.0, "ready_at": 2.0,
    "healthy_s": 60.0, "restarts": [1.0], "port_failures": 0, "fault": None, "takedown": None, "next_plan": None,
    "checked": "p1", "imaged": "p1", "backoff_until": None, "accepted": [], "at_window": False,
    "restart_at_window": True, "starts": [], "shared": [], "counts": {"stalls.busy": 1}, "proved": 0,
    "last_good": "p1", "returning": None, "replaces": None, "give_back": None, "sets": {}, "would": None,
}  # fmt: skip
OPERATION = {
    "id": "feed", "slug": "demo", "kind": "deploy", "created": 7.0, "plan_id": "p1", "generation": 2,
    "state": "running", "ended": None, "error": None, "progress": {}, "by": "a person",
}  # fmt: skip

VERSION_1 = """
CREATE TABLE deployment (slug TEXT PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE plan (plan_id TEXT PRIMARY KEY, slug TEXT NOT NULL, at REAL NOT NULL, plan TEXT NOT NULL);
CREATE INDEX plan_slug ON plan (slug, at);
CREATE TABLE operation (id TEXT PRIMARY KEY, slug TEXT NOT NULL, created REAL NOT NULL,
  state TEXT NOT NULL, operation TEXT NOT NULL);
CREATE TABLE event (seq INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, slug TEXT NOT NULL,
  kind TEXT NOT NULL, text TEXT NOT NULL, data TEXT NOT NULL);
CREATE INDEX event_slug ON event (slug, seq);
CREATE TABLE learned (slug TEXT NOT NULL, key TEXT NOT NULL, value REAL NOT NULL, at REAL NOT NULL,
  PRIMARY KEY (slug, key));
PRAGMA user_version = 1;
"""
"""As the first agents made it."""


def version_1(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(VERSION_1)
    db.execute("INSERT INTO deployment VALUES ('demo', ?)", (json.dumps(RECORD),))
    db.execute("INSERT INTO plan VALUES ('p1', 'demo', 1.0, ?)", (json.dumps({"plan_id": "p1"}),))
    db.execute("INSERT INTO operation VALUES ('feed', 'demo', 7.0, 'running', ?)", (json.dumps(OPERATION),))
    db.execute("INSERT INTO event (at, slug, kind, text, data) VALUES (3.0, 'demo', 'step', 'creates it', '{}')")
    db.execute("INSERT INTO learned VALUES ('demo', 'start_s', 450.0, 2.0)")
    db.commit()
    db.close()


def cut_short(path: Path) -> None:
    """What a kill in the first moments of a first agent left: some tables, no version."""
    db = sqlite3.connect(path)
    db.executescript("\n".join(VERSION_1.splitlines()[:4]))
    db.close()


def version_in(path: Path) -> int:
    db = sqlite3.connect(path)
    try:
        return version_of(db)
    finally:
        db.close()


async def holds_everything(store: SqliteStore) -> None:
    (record,) = await store.load()
    assert (record.slug, record.generation, record.state) == ("demo", 3, State.READY)
    assert record.restart_at_window
    assert record.counts == {"stalls.busy": 1}
    assert [one.id for one in await store.operations("demo", open_only=True)] == ["feed"]
    assert [one.text for one in await store.events("demo")] == ["creates it"]
    assert await store.learned("demo") == {"start_s": 450.0}
    assert await store.plan("p1") == {"plan_id": "p1"}


@pytest.mark.parametrize("older", [version_1])
async def test_a_file_of_an_older_version_is_brought_up_and_kept_as_it_was(
    tmp_path: Path, older: Callable[[Path], None]
) -> None:
    """Everything in it is there, it is of this version, and the old one beside it is what an older agent would open."""
    path = tmp_path / "state.db"
    older(path)
    was = version_in(path)
    store = SqliteStore(path, owner=True)
    await holds_everything(store)
    assert store.rebuilt is None
    await store.save(Deployment("other", "p2"))
    await store.close()
    assert version_in(path) == VERSION
    kept = kept_as(path, was)
    assert version_in(kept) == was
    db = sqlite3.connect(kept)
    assert [row[0] for row in db.execute("SELECT slug FROM deployment")] == ["demo"]
    db.close()


async def test_the_version_of_a_new_file_is_that_of_one_that_was_brought_up(tmp_path: Path) -> None:
    """The same tables and indexes, whichever way it came to be; a new one keeps no older one."""

    async def form(path: Path) -> list[tuple[str, ...]]:
        store = SqliteStore(path, owner=True)
        await store.load()
        await store.close()
        db = sqlite3.connect(path)
        found = db.execute("SELECT type, name, tbl_name FROM sqlite_master ORDER BY 1, 2").fetchall()
        db.close()
        return found

    for name, make in (("old", version_1), ("cut", cut_short), ("new", None)):
        (tmp_path / name).mkdir()
        if make is not None:
            make(tmp_path / name / "state.db")
    old, cut, new = [await form(tmp_path / name / "state.db") for name in ("old", "cut", "new")]
    assert old == cut == new
    assert not list((tmp_path / "new").glob("*.version-*"))
    assert version_in(tmp_path / "cut" / "state.db") == VERSION


@pytest.mark.parametrize("older", [version_1])
async def test_a_command_reads_an_older_file_and_leaves_it_as_it_is(
    tmp_path: Path, older: Callable[[Path], None]
) -> None:
    """The command line was upgraded, the agent still runs: its file is the agent's to change."""
    path = tmp_path / "state.db"
    older(path)
    was = version_in(path)
    store = SqliteStore(path)
    await holds_everything(store)
    await store.close()
    assert version_in(path) == was
    assert sorted(one.name for one in tmp_path.iterdir()) == ["state.db"]


async def test_a_command_makes_no_file_and_writes_to_none(tmp_path: Path) -> None:
    """One that is run as root before the agent ever was would leave a file that the agent may not write."""
    path = tmp_path / "state.db"
    reader = SqliteStore(path)
    assert await reader.load() == ()
    await reader.close()
    assert list(tmp_path.iterdir()) == []
    owner = SqliteStore(path, owner=True)
    await owner.save(Deployment("demo", "p1"))
    reader = SqliteStore(path)
    assert len(await reader.load()) == 1
    with pytest.raises(StoreTrouble, match="readonly"):
        await reader.forget("demo")
    await reader.close()
    await owner.close()


def test_a_step_that_fails_leaves_the_version_before(tmp_path: Path) -> None:
    """Its first statements are taken back with it; the steps before it stay, and the next try goes on from there."""
    path = tmp_path / "state.db"
    version_1(path)
    db = sqlite3.connect(path)
    third = ("CREATE TABLE note (text TEXT)", "INSERT INTO note VALUES ('one')")
    with pytest.raises(sqlite3.OperationalError, match="no such table: missing"):
        bring_up(db, path, (*STEPS, (*third, "INSERT INTO missing VALUES (1)")))
    assert version_of(db) == VERSION
    assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'note'").fetchone() == (0,)
    bring_up(db, path, (*STEPS, third))
    assert version_of(db) == VERSION + 1
    db.close()
    assert version_in(kept_as(path, 1)) == 1
    assert version_in(kept_as(path, VERSION)) == VERSION


async def test_nothing_is_brought_up_that_could_not_be_kept_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: the file stays as it was, and why is said."""

    def full(db: sqlite3.Connection, target: Path) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    path = tmp_path / "state.db"
    version_1(path)
    monkeypatch.setattr(sqlite_schema, "keep", full)
    store = SqliteStore(path, owner=True)
    with pytest.raises(StoreTrouble, match="disk is full"):
        await store.load()
    assert version_in(path) == 1
    monkeypatch.undo()
    await holds_everything(store)
    await store.close()


async def test_an_older_agent_refuses_and_says_where_its_own_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    version_1(path)
    store = SqliteStore(path, owner=True)
    await store.load()
    await store.close()
    monkeypatch.setattr("agent.adapters.sqlite_store.VERSION", 1)
    for owner in (True, False):
        older = SqliteStore(path, owner=owner)
        with pytest.raises(NewerState, match="version 2, this one knows 1") as caught:
            await older.load()
        await older.close()
        assert str(kept_as(path, 1)) in caught.value.advice
    assert kept_as(path, 1).is_file()


KILLED = """
import os, signal, sqlite3, sys
from pathlib import Path
from agent.adapters.sqlite_schema import bring_up

path, at, every = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

def attempt(count):
    db = sqlite3.connect(path)
    left = [count]
    def tick():
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    db.set_progress_handler(tick, every)
    bring_up(db, path)
    db.close()

attempt(at)
"""


@pytest.mark.timeout(110)
async def test_a_kill_at_any_moment_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """SIGKILL after so many instructions of SQLite's machine, from the first of the copy to the last of the step."""
    seen = set()
    for at in (*range(1, 8), *range(8, 4000, 6)):
        folder = tmp_path / str(at)
        folder.mkdir()
        path = folder / "state.db"
        version_1(path)
        words = [sys.executable, "-c", KILLED, str(path), str(at), "12"]
        ended = subprocess.run(words, cwd=REPOSITORY, check=False, timeout=30).returncode
        db = sqlite3.connect(path)
        version = version_of(db)
        assert db.execute("PRAGMA quick_check").fetchone() == ("ok",)
        indexes = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE name LIKE 'operation_%'")}
        db.close()
        assert indexes == ({"operation_open", "operation_created"} if version == 2 else set()), (at, version)
        kept = kept_as(path, 1)
        assert version == 1 or version_in(kept) == 1
        seen.add((version, kept.exists()))
        store = SqliteStore(path, owner=True)
        await holds_everything(store)
        await store.close()
        assert version_in(kept) == 1
        if ended == 0:
            break
    assert ended == 0, "the last one was not killed"
    assert seen >= {(1, False), (1, True), (2, True)}, seen


def plan(db: sqlite3.Connection, query: str, *given: object) -> str:
    return "; ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query}", given))


async def test_what_is_asked_at_every_change_reads_no_whole_table(tmp_path: Path) -> None:
    """The open operations of one deployment and its events; how many operations there are is read off an index."""
    path = tmp_path / "state.db"
    store = SqliteStore(path, owner=True)
    asked: list[str] = []
    await store._run(lambda db: db.set_trace_callback(asked.append))
    await store.save_operation(Operation("one", "demo", "deploy", 1.0))
    await store.operations("demo", open_only=True)
    await store.events("demo", after=3)
    await store._run(lambda db: db.set_trace_callback(None))
    queries = [one for one in asked if one.startswith(("SELECT", "DELETE"))]
    assert len(queries) == 3
    for query in queries:
        if query.startswith("SELECT count(*)"):
            continue
        found = await store._run(lambda db, query=query: plan(db, query))  # type: ignore[misc]
        assert "SEARCH" in found, f"{query}: {found}"
        assert "SCAN" not in found, f"{query}: {found}"
    await store.close()
