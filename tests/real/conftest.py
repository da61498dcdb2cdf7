"""A rig for each test, closed whatever happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.engines import RealEngine
from tests.real.rig import Rig, Site

QUICK = {
    "period": 2.0,
    "scrape_timeout": 1.5,
    "suspect": 6.0,
    "stall": 12.0,
    "stall_blind": 24.0,
    "zombie": 8.0,
    "canary_idle": 12.0,
    "canary_idle_timeout": 4.0,
    "canary_timeout": 8.0,
    "refused": 4.0,
    "unobservable": 12.0,
    "jit": 0.0,
    "term": 3.0,
    "term_clients": 4.0,
    "kill": 5.0,
    "release": 20.0,
}
"""Windows for an engine that answers in milliseconds."""

Start = Callable[..., Rig]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the daemon over an engine; `deploy=False` leaves the asking to the test."""
    rigs: list[Rig] = []

    def make(engine: RealEngine, *, deploy: bool = True, restarts: int = 3, **watch: float) -> Rig:
        site = Site(tmp_path / f"site{len(rigs)}", engine.slug, engine.command, engine.env, QUICK | watch, restarts)
        rig = Rig(site)
        rigs.append(rig)
        if deploy:
            rig.deploy()
        return rig

    yield make
    for rig in rigs:
        rig.close()
