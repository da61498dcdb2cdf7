"""Snapshots as a running daemon takes them, for tests and for the benchmark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent.action.record import Deployment, State
from agent.metrics.board import Board
from agent.metrics.snapshot import CardFigures, CollectorFigures, Snapshot
from agent.preflight.model import Finding, Level
from agent.verdict.model import Judged, Verdict
from tests.plan.build import plan

PLAN = plan()
FIGURES: dict[str, Any] = {
    "requests_running": 3,
    "requests_waiting": 1,
    "client_connections": 3,
    "zombie_requests": 0,
    "zombie_kv_tokens": 0,
    "prompt_tokens": 1_000_000,
    "generation_tokens": 250_000,
    "decode_tokens_per_second": 61.5,
    "kv_cache_usage_ratio": 0.41,
    "spec_decode_acceptance_ratio": 0.77,
    "seconds_since_progress": {"0": 0.4},
}


def board(slug: str, state: State = State.BUSY, **figures: Any) -> Board:
    """A deployment that is busy; keywords are figures of its verdict."""
    judged = Judged(state.value) if state.value in set(Judged) else Judged.READY
    checks = tuple(Finding(f"check.{number}", Level.PASS, "fine") for number in range(25))
    return Board(
        record=Deployment(slug, PLAN.plan_id, state=state, container="c1", generation=2),
        plan=replace(PLAN, recipe=replace(PLAN.recipe, slug=slug)),
        runtime="docker",
        at=1_800_000_000.0,
        verdict=Verdict(judged, "busy", figures=FIGURES | figures, blind=("connections",)),
        findings=checks,
        startup_s=450.0,
    )


def snapshot(deployments: int = 1, cards: int = 4, **more: Any) -> Snapshot:
    """A host with so many deployments and cards."""
    boards = tuple(board(f"deepseek-v4-flash-on-four-cards-{number:02}") for number in range(deployments))
    seen = tuple(
        CardFigures(str(number), f"GPU-{number}", 1e9, 64e9, 0.9, 180.0, 60.0, 16, 4) for number in range(cards)
    )
    given: dict[str, Any] = {"version": "1", "boards": boards, "cards": seen, "tick_s": 0.01, "memory_available": 1e11}
    given["collectors"] = {name: CollectorFigures(True, 0.01) for name in ("nvml", "memory", "docker", "disk_state")}
    given["totals"] = {
        (kind, one.record.slug): 1e6 for one in boards for kind in ("prompt_tokens", "generation_tokens")
    }
    given["ratios"] = {(one.record.slug, f"decode@{point}k"): 0.98 for one in boards for point in (1, 8, 32, 128)}
    return Snapshot(**(given | more))
