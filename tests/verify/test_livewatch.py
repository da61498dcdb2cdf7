"""Slow traffic with a cause becomes one event, and its end another; other hardware is shown and never told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from agent.clock import Instant
from agent.daemon.fleet import Fleet
from agent.daemon.livewatch import PERIOD_S, LiveWatch
from agent.host.gpu import Gpu
from agent.host.port import GpuSource, Processes
from agent.host.reading import Known, Unknown
from agent.metrics.board import Board
from agent.plan.model import Claim
from agent.samples.model import Miss, Missed, Sample
from tests.metrics.boards import board
from tests.preflight.build import card, need

SLUG = "small"
NOW = Instant(0.0, 1_800_000_000.0)
CLAIM = Claim("decode_tok_s", 60.0, 1, None, False, "perf_points[0]")
NOTHING = Sample(NOW, Missed(Miss.GONE, "not asked"), Missed(Miss.NOT_ASKED, "not asked"))


class Stage:
    """One deployment whose figures a test sets, a host with one card, a clock that a test turns."""

    def __init__(self, wanted: str) -> None:
        self.boards: dict[str, Board] = {}
        self.told: list[tuple[str, str, dict[str, Any]]] = []
        self.mono = 0.0
        self.card: Gpu = card(0)
        self.wanted = wanted
        self.watch = LiveWatch(cast(Fleet, self), cast(GpuSource, self), cast(Processes, self), self)

    async def tell(self, slug: str, kind: str, text: str, data: Mapping[str, Any] | None = None) -> None:
        assert slug == SLUG
        self.told.append((kind, text, dict(data or {})))

    def last(self) -> Known[tuple[Gpu, ...]]:
        return Known((self.card,), NOW)

    async def tree(self, pid: int) -> Unknown:
        return Unknown(f"{pid} is gone")

    def now(self) -> Instant:
        return Instant(self.mono, 1_800_000_000.0 + self.mono)

    async def serve(self, seconds: float, rate: float, generation: int = 1, **more: float) -> None:
        """So long at this rate, with one request running."""
        for _ in range(int(seconds / PERIOD_S)):
            shown = board(SLUG, requests_running=1, decode_tokens_per_second=rate, zombie_requests=0, **more)
            needs = (need("gpu.model", self.wanted),)
            plan = replace(shown.plan, claims=(CLAIM,), requirements=needs, gpus=(self.card.uuid,))
            record = replace(shown.record, generation=generation)
            self.boards[SLUG] = replace(shown, record=record, plan=plan, sample=NOTHING)
            await self.watch.look()
            self.mono += PERIOD_S


@pytest.fixture
def stage() -> Stage:
    return Stage("cmp-170hx")


async def test_slow_with_a_cause_is_told_once_and_its_end_too(stage: Stage) -> None:
    """The ratio is shown from the first minute on; the event comes after ten, whatever stays as it is."""
    stage.card = card(0, throttle=("hw_thermal",))
    await stage.serve(300, 24.0)
    assert stage.watch.ratios == {(SLUG, "live decode c1"): 0.4}
    assert stage.told == []
    await stage.serve(900, 24.0)
    ((kind, text, data),) = stage.told
    assert (kind, data["slow"], data["causes"]) == ("slow", True, ["throttling"])
    assert "0.40 of what is claimed" in text
    assert "throttled (hw_thermal)" in text
    await stage.serve(900, 58.0)
    assert [one[2]["slow"] for one in stage.told] == [True, False]


async def test_slow_alone_is_not_told(stage: Stage) -> None:
    """Traffic may be of any kind: without a second sign nobody is woken."""
    await stage.serve(3600, 24.0)
    assert stage.told == []
    assert stage.watch.ratios == {(SLUG, "live decode c1"): 0.4}


async def test_a_claim_of_other_hardware_is_shown_and_never_told() -> None:
    stage = Stage("rtx-4090")
    stage.card = card(0, throttle=("hw_thermal",))
    await stage.serve(3600, 24.0)
    assert stage.told == []
    assert stage.watch.ratios == {(SLUG, "live decode c1"): 0.4}


async def test_slow_is_mended_by_a_restart_only_where_its_cause_is_the_engines_own(stage: Stage) -> None:
    """Heat outlives every restart; drafts that are no longer taken need not. What is over is forgotten."""
    stage.card = card(0, throttle=("hw_thermal",))
    await stage.serve(1200, 24.0)
    assert stage.told
    assert stage.watch.mendable(SLUG, 1) == ""
    stage.card = card(0)
    await stage.serve(120, 58.0, generation=2, spec_decode_acceptance_ratio=0.9)
    await stage.serve(1200, 24.0, generation=2, spec_decode_acceptance_ratio=0.3)
    assert stage.told[-1][2]["causes"] == ["acceptance"]
    assert "0.40 of what is claimed" in stage.watch.mendable(SLUG, 2)
    assert stage.watch.mendable(SLUG, 3) == ""
    await stage.serve(900, 58.0, generation=2, spec_decode_acceptance_ratio=0.9)
    assert stage.watch.mendable(SLUG, 2) == ""


async def test_a_new_generation_begins_anew_and_what_is_gone_is_forgotten(stage: Stage) -> None:
    stage.card = card(0, throttle=("hw_thermal",))
    await stage.serve(500, 24.0)
    await stage.serve(500, 24.0, generation=2)
    assert stage.told == []
    stage.boards.clear()
    await stage.watch.look()
    assert stage.watch.ratios == {}
