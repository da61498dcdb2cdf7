"""How large the state grows: 30 days of a fleet of 16 that has trouble, and a host with 100 deployments.

    python -m tests.bench.bench_state

A day of one deployment is 60 changes of state, 20 operations and 6 new plans: far more than a healthy one has. Prints
one line of JSON, megabytes (10^6) on disk and milliseconds of the last reading.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path

from agent.action.operation import Operation, end
from agent.action.record import Deployment, State
from agent.action.store import Event
from agent.adapters.sqlite_store import SqliteStore
from agent.plan.tojson import to_json
from tests.bench.bench_agent import size
from tests.plan.build import plan

DAYS, FLEET, MANY = 30, 16, 100
CHANGES, OPERATIONS, PLANS = 60, 20, 6
DAY_S = 86_400.0
BEGIN = 1_800_000_000.0


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        month = asyncio.run(lived(Path(folder) / "month", FLEET, DAYS))
        many = asyncio.run(lived(Path(folder) / "many", MANY, 1))
    print(json.dumps({"month_of_16_mb": month[0], "day_of_100_mb": many[0], "read_100_ms": many[1]}))
    return 0


async def lived(folder: Path, deployments: int, days: int) -> tuple[float, float]:
    """Megabytes afterwards, and milliseconds to read all deployments and the last events."""
    folder.mkdir()
    store = SqliteStore(folder / "state.db", owner=True)
    slugs = [f"deployment-{number:03}" for number in range(deployments)]
    for day in range(days):
        for slug in slugs:
            await one_day(store, slug, day)
    began = time.perf_counter()
    await store.load()
    await store.events(limit=200)
    took = time.perf_counter() - began
    await store.close()
    return round(size(folder) / 1e6, 1), round(took * 1000, 1)


async def one_day(store: SqliteStore, slug: str, day: int) -> None:
    made = to_json(plan())
    for number in range(PLANS):
        await store.save_plan(slug, {**made, "plan_id": f"{slug}-{day}-{number}"})
    for number in range(CHANGES):
        at = BEGIN + day * DAY_S + number * DAY_S / CHANGES
        record = Deployment(slug, f"{slug}-{day}-0", state=State.READY, since=at, why="serves", generation=number)
        await store.save(record)
        text = "1 request runs and nothing moved for 61 s: no tokens, no prefill, no steps"
        await store.add_event(Event(at, slug, "state", text, {"from": "busy", "to": "suspect"}))
    for number in range(OPERATIONS):
        operation = Operation(id=f"{slug}-{day}-{number}", slug=slug, kind="restart", created=BEGIN + day * DAY_S)
        await store.save_operation(end(operation, BEGIN + day * DAY_S + 60.0))


if __name__ == "__main__":
    raise SystemExit(main())
