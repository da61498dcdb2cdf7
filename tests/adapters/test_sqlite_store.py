"""State outlives kills, damage and loss of its file, and is never taken from a newer agent."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from agent.action.record import Deployment, Fault, Reason, State, Takedown
from agent.action.store import StoreTrouble
from agent.adapters.sqlite_store import NewerState, SqliteStore
from agent.verdict.model import Remedy

RECORD = Deployment(
    "demo",
    "p1",
    state=State.STOPPING,
    restarts=(1.0, 2.0),
    takedown=Takedown(Reason.FAULT, "stalled", begun=5.0, members=((7, 70),), container="c"),
    fault=Fault("busy", "nothing moves", Remedy.RESTART, 9.0),
    counts={"stalls.busy": 1},
)
PLAN = {"plan_id": "p1", "words": "of a plan"}


def file_of(folder: Path) -> Path:
    return folder / "state.db"


async def kept(folder: Path) -> None:
    store = SqliteStore(file_of(folder), owner=True)
    await store.save(RECORD)
    await store.save_plan("demo", PLAN)
    await store.close()


async def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    await kept(tmp_path)
    store = SqliteStore(file_of(tmp_path), owner=True)
    assert await store.load() == (RECORD,)
    assert await store.plan("p1") == PLAN
    assert store.rebuilt is None
    await store.close()


@pytest.mark.parametrize("damage", ["text", "half", "header", "empty", "gone"])
async def test_a_damaged_file_is_kept_aside_and_the_plans_are_not_lost(tmp_path: Path, damage: str) -> None:
    """Truncated, overwritten, emptied or removed: begun anew with every plan, and said."""
    await kept(tmp_path)
    file = file_of(tmp_path)
    whole = file.read_bytes()
    match damage:
        case "text":
            file.write_bytes(b"this is no database, and never was one" * 200)
        case "half":
            file.write_bytes(whole[: len(whole) // 2])
        case "header":
            file.write_bytes(b"x" * 100 + whole[100:])
        case "empty":
            file.write_bytes(b"")
        case "gone":
            file.unlink()
    store = SqliteStore(file, owner=True)
    assert await store.load() == ()
    assert await store.plan("p1") == PLAN
    assert [one["plan_id"] for one in await store.history("demo")] == ["p1"]
    assert store.rebuilt is not None
    await store.close()
    aside = [path for path in tmp_path.glob("state.db.damaged-*") if path.name[-4:] not in ("-wal", "-shm")]
    assert len(aside) == (damage in ("text", "half", "header"))


async def test_a_command_that_reads_moves_nothing(tmp_path: Path) -> None:
    """Only the agent that holds the state folder may take a damaged file away."""
    await kept(tmp_path)
    file_of(tmp_path).write_bytes(b"no database" * 1000)
    store = SqliteStore(file_of(tmp_path))
    with pytest.raises(StoreTrouble):
        await store.load()
    await store.close()
    assert list(tmp_path.glob("*damaged*")) == []


async def test_a_newer_state_is_refused_not_eaten(tmp_path: Path) -> None:
    await kept(tmp_path)
    db = sqlite3.connect(file_of(tmp_path))
    db.execute("PRAGMA user_version = 99")
    db.close()
    store = SqliteStore(file_of(tmp_path), owner=True)
    with pytest.raises(NewerState, match="newer"):
        await store.load()
    await store.close()
    assert list(tmp_path.glob("*damaged*")) == []


async def test_a_first_start_is_no_loss(tmp_path: Path) -> None:
    store = SqliteStore(file_of(tmp_path), owner=True)
    assert await store.load() == ()
    assert store.rebuilt is None
    await store.close()


async def test_a_plan_file_that_is_damaged_costs_the_others_nothing(tmp_path: Path) -> None:
    await kept(tmp_path)
    (tmp_path / "plans" / "p0.json").write_text('{"slug": "demo"')
    file_of(tmp_path).unlink()
    store = SqliteStore(file_of(tmp_path), owner=True)
    assert await store.plan("p1") == PLAN
    await store.close()
