"""What the state keeps of the past, and what it may not lose."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from agent.action.operation import Operation, end
from agent.action.record import Deployment
from agent.action.store import Event
from agent.adapters import sqlite_store, state_bounds
from agent.adapters.sqlite_store import SqliteStore


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PLANS_EACH": 3, "PLANS_GONE": 2, "EVENTS": 40, "EVENTS_EACH": 5,
        "OPERATIONS": 10, "OPERATIONS_EACH": 2, "OPERATIONS_OVER": 0, "SPARE_BYTES": 100_000,
    }.items():  # fmt: skip
        monkeypatch.setattr(state_bounds, name, value)
    monkeypatch.setattr(sqlite_store, "THIN_EVENTS_EVERY", 10)


def opened(folder: Path) -> SqliteStore:
    return SqliteStore(folder / "state.db", owner=True)


async def plans(store: SqliteStore, slug: str, *numbers: int) -> None:
    for number in numbers:
        await store.save_plan(slug, {"plan_id": f"{slug}-{number:03}", "text": "x" * 2000})


async def history(store: SqliteStore, slug: str) -> list[str]:
    return [one["plan_id"] for one in await store.history(slug)]


def files(folder: Path) -> list[str]:
    return sorted(file.stem for file in (folder / "plans").glob("*.json"))


async def test_the_last_plans_stay_and_every_one_that_is_named(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await plans(store, "demo", 1, 2, 3)
    await store.save(Deployment("demo", "demo-001", last_good="demo-002"))
    await plans(store, "demo", *range(4, 10))
    kept = ["demo-001", "demo-002", "demo-007", "demo-008", "demo-009"]
    assert await history(store, "demo") == kept == files(tmp_path)
    await store.close()


async def test_a_plan_that_is_about_to_be_started_stays(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await plans(store, "demo", 1)
    await store.save_operation(Operation("one", "demo", "rollback", created=1.0, plan_id="demo-001"))
    await plans(store, "demo", *range(2, 9))
    assert "demo-001" in await history(store, "demo")
    await store.close()


async def test_what_is_not_deployed_any_more_keeps_a_few_plans_in_all(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await store.save(Deployment("stays", "stays-001"))
    await plans(store, "stays", 1, 2)
    for slug in ("gone-a", "gone-b", "gone-c"):
        await plans(store, slug, 1, 2)
    await plans(store, "stays", 3)
    assert await history(store, "stays") == ["stays-001", "stays-002", "stays-003"]
    assert await history(store, "gone-c") == ["gone-c-001", "gone-c-002"]
    assert await history(store, "gone-a") == []
    await store.close()


async def test_one_in_trouble_costs_the_others_none_of_their_history(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for slug in ("calm", "noisy"):
        await store.save(Deployment(slug, "p"))
    for number in range(8):
        await store.add_event(Event(float(number), "calm", "state", f"calm {number}"))
        await store.add_event(Event(float(number), "", "agent", f"own {number}"))
        await store.add_event(Event(float(number), "removed", "state", "of one that is gone"))
    for number in range(200):
        await store.add_event(Event(float(number), "noisy", "state", f"noisy {number}"))
    assert [event.text for event in await store.events("calm")] == [f"calm {number}" for number in range(3, 8)]
    assert len(await store.events("")) == 5
    assert len(await store.events("noisy", limit=1000)) in range(30, 51)
    assert await store.events("removed") == ()
    await store.close()


async def test_operations_of_each_stay_and_those_under_way(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for slug in ("calm", "noisy"):
        await store.save(Deployment(slug, "p"))
    await store.save_operation(Operation("open", "noisy", "restart", created=0.0))
    for number in range(4):
        await store.save_operation(end(Operation(f"calm-{number}", "calm", "stop", created=1.0 + number), 9.0))
    for number in range(60):
        await store.save_operation(end(Operation(f"noisy-{number}", "noisy", "stop", created=100.0 + number), 200.0))
    assert [one.id for one in await store.operations("calm")] == ["calm-2", "calm-3"]
    assert [one.id for one in await store.operations("noisy")] == ["open", *(f"noisy-{n}" for n in range(50, 60))]
    await store.close()


async def test_a_file_of_an_agent_without_bounds_shrinks_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as unbounded:
        unbounded.setattr(state_bounds, "PLANS_EACH", 10_000)
        store = opened(tmp_path)
        await plans(store, "demo", *range(200))
        await store.close()
    before = (tmp_path / "state.db").stat().st_size
    store = opened(tmp_path)
    assert await history(store, "demo") == ["demo-197", "demo-198", "demo-199"] == files(tmp_path)
    await store.close()
    assert (tmp_path / "state.db").stat().st_size < before / 4
    with sqlite3.connect(tmp_path / "state.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_a_clock_that_was_ahead_removes_nothing_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came last is the newest, though everything before has a later time."""
    store = opened(tmp_path)
    now = time.time()
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time", lambda: now + 1e8)
        await plans(store, "demo", *range(1, 6))
    await plans(store, "demo", 6)
    assert "demo-006" in await history(store, "demo")
    for number in range(20):
        done = end(Operation(f"{number}", "demo", "restart", created=now + 1e8), now + 1e8)
        await store.save_operation(done)
    late = Operation("late", "demo", "restart", created=now)
    await store.save_operation(late)
    await store.save_operation(end(late, now))
    assert await store.operation("late") is not None
    await store.close()


async def test_a_full_disk_keeps_no_agent_from_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond the bounds stays until there is room to remove it, whole."""
    store = opened(tmp_path)
    with monkeypatch.context() as before:
        before.setattr(state_bounds, "PLANS_EACH", 100)
        await plans(store, "demo", *range(1, 9))
    await store.save(Deployment("demo", "demo-008"))
    await store.close()

    def full(db: sqlite3.Connection, newest: int) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as disk:
        disk.setattr(state_bounds, "thin_events", full)
        store = opened(tmp_path)
        assert [record.slug for record in await store.load()] == ["demo"]
        await store.close()
    assert len(files(tmp_path)) == 8
    store = opened(tmp_path)
    assert await history(store, "demo") == files(tmp_path) == ["demo-006", "demo-007", "demo-008"]
    await store.close()
