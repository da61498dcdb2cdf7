"""The exposition of a live daemon: what is removed leaves no series, and a scrape is quick."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.conftest import open_rig
from tests.api.tcp import ask
from tests.e2e import recipes
from tests.e2e.rig import Rig
from tests.lab.children import free_port


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Rig]:
    rig = open_rig(tmp_path)
    try:
        rig.start()
        yield rig
    finally:
        rig.close()


def test_a_removed_deployment_leaves_no_series(own: Rig) -> None:
    own.publish(recipes.recipe("sim", free_port()), recipes.profile())
    own.ok("deploy", "sim", "--yes", "-q", "--wait=60")
    there = own.metrics()
    assert 'recipe_agent_engine_ready{recipe="sim"} 1.0' in there
    assert 'recipe_agent_stalls_total{kind="busy",recipe="sim"} 0.0' in there, "before the first stall"
    own.ok("remove", "sim", "-q")
    assert 'recipe="sim"' not in own.metrics()


def test_a_scrape_is_text_for_prometheus_and_quick(own: Rig) -> None:
    reply = ask(own.port, "/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    taken = []
    for _ in range(20):
        start = time.perf_counter()
        ask(own.port, "/metrics")
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.05, "the whole way over TCP, on a machine that does other things too"
