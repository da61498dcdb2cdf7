"""Slow traffic with a cause becomes one event, and its end another; other hardware is shown and never told."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from agent.action.record import State
from agent.clock import Instant
from agent.container.port import ContainerView, RunState
from agent.daemon.fleet import Fleet
from agent.daemon.livewatch import PERIOD_S, LiveWatch
from agent.engines.model import EngineReading, RankReading
from agent.host.gpu import Gpu, GpuProcess, Shares
from agent.host.port import GpuSource, Processes
from agent.host.process import Process
from agent.host.reading import Known, Reading, Unknown
from agent.metrics.board import Board
from agent.plan.model import Claim
from agent.quantity import Bytes
from agent.samples.model import Miss, Missed, Sample
from tests.metrics.boards import board
from tests.preflight.build import card, need

SLUG, OTHER = "small", "other"
EPOCH = 1_800_000_000.0
CLAIM = Claim("decode_tok_s", 60.0, 1, None, False, "perf_points[0]")


class Stage:
    """Deployments whose figures a test sets, a host with one card, a clock that a test turns."""

    def __init__(self, wanted: str) -> None:
        self.boards: dict[str, Board] = {}
        self.told: list[tuple[str, str, dict[str, Any]]] = []
        self.mono = 0.0
        self.made = 0.0
        self.card: Gpu = card(0)
        self.card_read: float | None = None
        """When the card was read last; None: just now."""
        self.wanted = wanted
        self.trees: dict[int, tuple[Process, ...]] = {}
        self.busy: dict[int, float] | Unknown = {}
        self.asked = 0
        self.watch = LiveWatch(cast(Fleet, self), cast(GpuSource, self), cast(Processes, self), self)

    async def tell(self, slug: str, kind: str, text: str, data: Mapping[str, Any] | None = None) -> None:
        assert slug == SLUG
        self.told.append((kind, text, dict(data or {})))

    async def shares(self, uuids: Collection[str]) -> dict[str, Reading[Shares]]:
        self.asked += 1
        found = self.busy if isinstance(self.busy, Unknown) else Known(self.busy, self.now())
        return dict.fromkeys(uuids, found)

    def last(self) -> Known[tuple[Gpu, ...]]:
        read = self.mono if self.card_read is None else self.card_read
        return Known((self.card,), Instant(read, EPOCH + read))

    async def tree(self, pid: int) -> Known[tuple[Process, ...]] | Unknown:
        found = self.trees.get(pid)
        return Unknown(f"{pid} is gone") if found is None else Known(found, self.now())

    async def in_container(self, container: str) -> Known[tuple[Process, ...]]:
        return Known((), self.now())

    def now(self) -> Instant:
        return Instant(self.mono, EPOCH + self.mono)

    def show(
        self, slug: str, pid: int, rate: float, generation: int = 1, state: State = State.BUSY, **more: Any
    ) -> None:
        """A board of now."""
        at, running = self.now(), more.pop("requests_running", 1)
        container = ContainerView("c", slug, slug, "p", generation, RunState.RUNNING, pid=pid)
        rank = RankReading("0", running=running, prompt_tokens=0.0, generation_tokens=self.made)
        shown = board(
            slug, state, requests_running=running, decode_tokens_per_second=rate, **{"zombie_requests": 0, **more}
        )
        needs = (need("gpu.model", self.wanted),)
        plan = replace(shown.plan, claims=(CLAIM,), requirements=needs, gpus=(self.card.uuid,))
        record = replace(shown.record, generation=generation)
        sample = Sample(at, container, EngineReading((rank,)))
        self.boards[slug] = replace(shown, record=record, plan=plan, sample=sample)

    async def serve(self, seconds: float, rate: float, **more: Any) -> None:
        """So long at this rate, with one request running."""
        for _ in range(int(seconds / PERIOD_S)):
            self.made += PERIOD_S * rate
            self.show(SLUG, 7, rate, **more)
            await self.pass_by()

    async def pass_by(self) -> None:
        """Ten seconds."""
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
    assert stage.watch.comparable == {SLUG: False}
    assert stage.told == []
    assert stage.watch.ratios == {(SLUG, "live decode c1"): 0.4}


async def test_slow_is_mended_by_a_restart_only_where_its_cause_is_the_engines_own(stage: Stage) -> None:
    """Heat outlives every restart; drafts that are no longer taken need not. What is over is forgotten."""
    stage.card = card(0, throttle=("hw_thermal",))
    await stage.serve(1200, 24.0)
    assert stage.told
    assert stage.watch.mendable(SLUG, 1) == ""
    stage.card = card(0)
    await stage.serve(900, 58.0, generation=2, spec_decode_acceptance_ratio=0.9)
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


async def test_what_was_said_of_a_run_ends_with_it(stage: Stage) -> None:
    """Nobody is left with a `slow` that no later word takes back."""
    stage.card = card(0, throttle=("hw_thermal",))
    await stage.serve(1200, 24.0)
    await stage.serve(PERIOD_S, 24.0, generation=2)
    assert [one[2]["slow"] for one in stage.told] == [True, False]
    assert "runs anew" in stage.told[-1][1]
    await stage.serve(1200, 24.0, generation=2)
    assert [one[2]["slow"] for one in stage.told] == [True, False, True]
    stage.boards.clear()
    await stage.watch.look()
    assert len(stage.told) == 3, "of what was removed there is nothing to say"


# ── what is not of now ────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_engine_that_is_not_looked_at_any_more_is_neither_slow_nor_shown(stage: Stage) -> None:
    """Its loop hangs, or its driver: the last look is no news, however long it stands."""
    stage.card = card(0, throttle=("hw_thermal",))
    await stage.serve(300, 24.0)
    for _ in range(360):
        await stage.pass_by()
    assert stage.told == []
    assert stage.watch.ratios == {}


async def test_metrics_that_are_not_read_are_no_traffic(stage: Stage) -> None:
    """The figures of the last good scrape stand beside a failed one."""
    stage.card = card(0, throttle=("hw_thermal",))
    await stage.serve(300, 24.0)
    for _ in range(360):
        shown = stage.boards[SLUG]
        assert shown.sample is not None
        missed = replace(shown.sample, at=stage.now(), scrape=Missed(Miss.TIMEOUT, "no answer in 5 s"))
        stage.boards[SLUG] = replace(shown, sample=missed)
        await stage.pass_by()
    assert stage.told == []
    assert stage.watch.ratios == {}


async def test_a_card_that_was_throttled_an_hour_ago_is_no_cause_now(stage: Stage) -> None:
    """NVML hangs: what it said last is not how it is. Read again, it is."""
    stage.card, stage.card_read = card(0, throttle=("hw_thermal",)), 0.0
    await stage.serve(3600, 24.0)
    assert stage.told == []
    assert stage.watch.comparable == {SLUG: True}
    stage.card_read = None
    await stage.serve(60, 24.0)
    assert [one[2]["causes"] for one in stage.told] == [["throttling"]]


async def test_ones_trouble_costs_the_others_nothing(stage: Stage) -> None:
    """A deployment that cannot be compared for a reason of the agent's own: the others are."""
    stage.show("a-bad-one", 8, 24.0)
    await stage.serve(100, 24.0)
    stage.show("a-bad-one", 8, 24.0)
    stage.boards["a-bad-one"] = replace(stage.boards["a-bad-one"], verdict=cast(Any, 3))
    await stage.serve(10, 30.0)
    assert stage.watch.ratios == {(SLUG, "live decode c1"): 0.5}


# ── causes that need two looks, or two deployments ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("cores", "expect"), [(0.01, [["waiting"]]), (0.5, [])])
async def test_ranks_that_wait_for_each_other_are_told_by_the_busiest_process(
    stage: Stage, cores: float, expect: list[list[str]]
) -> None:
    """Of twenty processes one that works hides in no average."""
    stage.card = card(0, utilization=0.12)
    await stage.serve(700, 24.0)
    for number in range(4):
        stage.trees[7] = tuple(
            one_process(7 + at, cpu_seconds=PERIOD_S * number * (cores if at == 3 else 0.001)) for at in range(20)
        )
        await stage.serve(10, 24.0)
    assert [one[2]["causes"] for one in stage.told] == expect


@pytest.mark.parametrize(("running", "expect"), [(2, [["foreign_load"]]), (0, [])])
async def test_another_deployment_on_the_card_is_named(stage: Stage, running: int, expect: list[list[str]]) -> None:
    """Where it is at work; one that rests holds memory and slows nobody."""
    stage.card = card(0, processes=(GpuProcess(7, Unknown("no")), GpuProcess(8, Unknown("no"))))
    stage.trees = {7: (one_process(7),), 8: (one_process(8),)}
    for _ in range(120):
        stage.made += 240.0
        stage.show(SLUG, 7, 24.0)
        stage.show(OTHER, 8, 60.0, requests_running=running)
        stage.boards[OTHER] = replace(stage.boards[OTHER], plan=replace(stage.boards[OTHER].plan, claims=()))
        await stage.pass_by()
    assert [one[2]["causes"] for one in stage.told] == expect
    assert all("other computes on card 0 too" in text for _, text, _ in stage.told)


# ── who else is on the card ───────────────────────────────────────────────────────────────────────────────────────

STRANGER = GpuProcess(4121, Known(Bytes.gib(12), Instant(0.0, EPOCH)))


async def test_a_stranger_that_computes_is_told_with_its_share(stage: Stage) -> None:
    """Nobody is told while it only holds its memory, however long; who begins to compute is told within a look."""
    stage.card = card(0, processes=(GpuProcess(7, Unknown("no")), STRANGER))
    stage.trees[7], stage.busy = (one_process(7),), {7: 0.9}
    await stage.serve(1800, 24.0)
    assert stage.told == []
    stage.busy = {7: 0.5, 4121: 0.5}
    await stage.serve(PERIOD_S, 24.0)
    ((_, text, data),) = stage.told
    assert data["causes"] == ["foreign_load"]
    assert "pid 4121 computes on card 0 too, 50% of the time" in text


@pytest.mark.parametrize(
    ("busy", "name", "words"),
    [
        ({7: 0.9}, "foreign_memory", "holds 12 GiB of memory on card 0, no computation seen"),
        (Unknown("not supported by this card"), "foreign_unknown", "unknown whether computing (not supported"),
    ],
)
async def test_memory_that_is_held_is_told_beside_the_cause(
    stage: Stage, busy: dict[int, float] | Unknown, name: str, words: str
) -> None:
    stage.card = card(0, throttle=("hw_thermal",), processes=(GpuProcess(7, Unknown("no")), STRANGER))
    stage.trees[7], stage.busy = (one_process(7),), busy
    await stage.serve(1200, 24.0)
    ((_, text, data),) = stage.told
    assert data["causes"] == ["throttling", name]
    assert "likely because card 0 is throttled" in text
    assert words in text


async def test_nvml_is_asked_who_computes_only_for_what_is_slow_and_beside_somebody(stage: Stage) -> None:
    stage.card = card(0, processes=(GpuProcess(7, Unknown("no")), STRANGER))
    stage.trees[7] = (one_process(7),)
    await stage.serve(1800, 58.0)
    assert stage.asked == 0, "it is not slow"
    stage.card = card(0, processes=(GpuProcess(7, Unknown("no")),))
    await stage.serve(1800, 24.0)
    assert stage.asked == 0, "it is alone"
    stage.card = card(0, processes=(GpuProcess(7, Unknown("no")), STRANGER))
    await stage.serve(PERIOD_S, 24.0)
    assert stage.asked == 1


async def test_more_requests_than_clients_is_said_as_the_suspicion_that_it_is(stage: Stage) -> None:
    """Several may share a connection: only a verdict says that nobody waits for them."""
    await stage.serve(1200, 24.0, state=State.SUSPECT, zombie_requests=2)
    assert "2 requests run beyond the clients that are connected" in stage.told[0][1]
    await stage.serve(1200, 24.0, generation=2, state=State.ZOMBIE, zombie_requests=2)
    assert "2 requests run that nobody waits for" in stage.told[-1][1]


def one_process(pid: int, cpu_seconds: float = 0.0) -> Process:
    return Process(
        pid=pid, ppid=1, state="S", start_ticks=5, name="vllm", cmdline=("vllm",), cpu_seconds=cpu_seconds, threads=1,
        uid=Unknown("no"), cgroup=Unknown("no"), container=None,
    )  # fmt: skip
