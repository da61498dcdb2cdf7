"""Verification by the clock: engines that nobody uses, and only where the site asks for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.action.record import State
from agent.daemon.verification import unused
from agent.settings.model import Settings
from tests.e2e import recipes
from tests.e2e.rig import Rig, wait_for
from tests.lab.children import free_port
from tests.metrics.boards import board

IDLE: dict[str, Any] = {"requests_running": 0, "client_connections": 0}


@pytest.mark.parametrize(
    ("state", "figures", "expect"),
    [
        (State.READY, IDLE, True),
        (State.READY, {**IDLE, "client_connections": 1}, False),
        (State.READY, {**IDLE, "requests_running": 1}, False),
        (State.READY, {**IDLE, "client_connections": None}, False),
        (State.READY, {**IDLE, "requests_running": None}, False),
        (State.BUSY, IDLE, False),
        (State.STOPPED, IDLE, False),
    ],
)
def test_only_what_is_known_to_be_unused_is_measured(state: State, figures: dict[str, Any], expect: bool) -> None:
    """A client that is connected may ask at any moment, and what is not known is not idle."""
    assert unused(board("small", state, **figures)) is expect


def test_an_engine_that_was_not_looked_at_is_not_known_to_be_unused() -> None:
    assert not unused(replace(board("small", State.READY, **IDLE), verdict=None))


def test_it_is_off_by_default() -> None:
    assert Settings().verify.cron is None


@pytest.mark.long
@pytest.mark.timeout(180)
def test_an_idle_engine_is_verified_by_the_clock(tmp_path: Path) -> None:
    """Every minute here: the report is there without anybody having asked."""
    slug, rig = "scheduled", Rig(tmp_path)
    rig.site["verify"] = {"cron": "* * * * *"}
    try:
        rig.start()
        document = recipes.recipe(
            slug, free_port(), env={"SIM_SCALE": "1", "SIM_START_S": "1", "SIM_DECODE_TOK_S": "60"}
        )
        document["perf_points"] = [{"id": 1, "context_len": 1, "concurrency": 1, "decode_tok_s": 60}]
        rig.publish(document, recipes.profile())
        rig.ok("deploy", slug, "--yes", "-q", "--wait=40")
        wait_for(lambda: rig.value("recipe_agent_claim_ratio", recipe=slug, point="decode c1 decode_tok_s"),
                 "the schedule's verification", within=120)  # fmt: skip
        (first, *_) = [one for one in rig.api("/v1/operations") if one["kind"] == "verify"]
        assert first["slug"] == slug
        assert any(event["kind"] == "verify" for event in rig.events(slug))
    finally:
        rig.close()
