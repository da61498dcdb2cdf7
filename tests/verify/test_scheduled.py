"""Verification by the clock: engines that nobody uses, and only where the site asks for it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from agent.settings.model import Settings
from tests.e2e import recipes, traffic
from tests.e2e.rig import Rig, wait_for
from tests.lab.children import free_port


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
        rig.ok("deploy", slug, "--yes", "-q", "--wait=60")
        wait_for(lambda: rig.value("recipe_agent_claim_ratio", recipe=slug, point="decode c1 decode_tok_s"),
                 "the schedule's verification", within=120)  # fmt: skip
        (first, *_) = [one for one in rig.api("/v1/operations") if one["kind"] == "verify"]
        assert first["slug"] == slug
        assert any(event["kind"] == "verify" for event in rig.events(slug))
        shown = rig.status(slug)["verification"]
        assert "of what is claimed" in shown["text"]
        assert shown["at"] < shown["next"]
        assert abs((rig.value("recipe_agent_verification_timestamp_seconds", recipe=slug) or 0) - time.time()) < 120
        said = rig.ok("status", slug).out
        assert f"{shown['at']}: {shown['text']}" in said
        assert "if nobody uses it then" in said
    finally:
        rig.close()


LONG: list[dict[str, Any]] = [{"id": 1, "context_len": 16000, "concurrency": 8, "prefill_tok_s": 4000}]


def scheduled(rig: Rig, slug: str) -> list[dict[str, Any]]:
    return [one for one in rig.api(f"/v1/operations?slug={slug}") if one["kind"] == "verify"]


@pytest.mark.long
@pytest.mark.timeout(240)
def test_it_ends_for_somebody_and_for_a_site_that_wants_it_no_more(tmp_path: Path) -> None:
    """A request comes in the middle of half a minute's prompts: it is alone within seconds. The schedule is taken out
    of the site file: what it began is over, and nothing begins again."""
    slug, rig, port = "given-way", Rig(tmp_path), free_port()
    rig.site["verify"] = {"cron": "* * * * *"}
    try:
        rig.start()
        document = recipes.recipe(slug, port, env={"SIM_SCALE": "1", "SIM_START_S": "1", "SIM_DECODE_TOK_S": "60"})
        rig.publish(document | {"perf_points": LONG}, recipes.profile())
        rig.ok("deploy", slug, "--yes", "-q", "--wait=40")
        wait_for(lambda: (rig.value("recipe_agent_requests_running", recipe=slug) or 0) >= 8, "its prompts", within=90)
        with traffic.client(port, max_tokens=600):
            first = wait_for(lambda: [one for one in scheduled(rig, slug) if one["state"] == "failed"], "its end")[0]
            assert first["error"]["code"] == "verify.gave_way"
            wait_for(lambda: rig.value("recipe_agent_requests_running", recipe=slug) == 1, "the client to be alone")
        wait_for(lambda: [one for one in scheduled(rig, slug) if one["state"] == "running"], "the next", within=90)
        del rig.site["verify"]
        rig.configure()
        assert rig.daemon is not None
        os.kill(rig.daemon.pid, signal.SIGHUP)
        wait_for(lambda: all(one["state"] != "running" for one in scheduled(rig, slug)), "its end")
        assert rig.api("/v1/host")["settings"]["needs_restart"] == []
        count = len(scheduled(rig, slug))
        time.sleep(65)
        assert len(scheduled(rig, slug)) == count
        assert "Traceback" not in rig.log.read_text()
    finally:
        rig.close()
