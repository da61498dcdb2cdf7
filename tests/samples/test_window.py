"""The window: bounded, and nothing that matters is lost when samples leave it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.clock import Instant
from agent.container.port import ContainerView, RunState
from agent.engines.model import EngineReading, FailureClass, LogEvent, Phase, RankReading
from agent.engines.tabbyapi import TabbyApi
from agent.plan.windows import derive
from agent.samples.marks import Gauge
from agent.samples.model import (
    Activity,
    Canary,
    Connections,
    GpuSample,
    Health,
    Miss,
    Missed,
    Sample,
    Xid,
)
from agent.samples.window import KEPT_EACH, OF_A_START, WindowBuilder
from agent.verdict.failure import root_cause

WATCH = derive(None, [], {})
VIEW = ContainerView("c", "n", "s", "p", 1, RunState.RUNNING, pid=1)
OK = Health(200, 0.01)


def at(seconds: float) -> Instant:
    return Instant(1000.0 + seconds, 2000.0 + seconds)


def rank(name: str = "0", **values: float) -> RankReading:
    running, kv = values.get("running", 1.0), values.get("kv_usage", 0.1)
    tokens = values.get("generation_tokens", 0.0)
    progress = {"running": running, "kv_usage": kv, "generation_tokens": tokens, "finished": 0.0}
    return RankReading(name, running, 0.0, kv, generation_tokens=tokens, finished=0.0, progress=progress)


def sample(seconds: float, *ranks: RankReading, **more) -> Sample:
    start = more.pop("start", 1.0)
    scrape = more.pop("scrape", EngineReading(ranks or (rank(),), process_start=start))
    return Sample(at=at(seconds), container=VIEW, scrape=scrape, health=more.pop("health", OK), **more)


def builder(**more) -> WindowBuilder:
    return WindowBuilder(at(0), WATCH, **more)


def test_it_is_bounded_in_time_and_remembers_when_progress_was():
    fold = builder()
    fold.add(sample(0))
    for tick in range(1, 1000):
        window = fold.add(sample(tick * 10.0))
    assert len(window.samples) == 181
    assert window.marks.ranks["0"].progressed == at(0), "nothing changed since the first sample, long gone from here"


def test_the_window_follows_the_longest_stall_window():
    watch = derive(None, [], {"stall_blind": 3000.0})
    fold = WindowBuilder(at(0), watch)
    for tick in range(1000):
        window = fold.add(sample(tick * 10.0))
    assert len(window.samples) == 601


def test_any_changed_component_is_progress_of_its_own_rank_alone():
    fold = builder()
    fold.add(sample(0, rank("0"), rank("1")))
    window = fold.add(sample(10, rank("0", generation_tokens=5), rank("1")))
    assert window.marks.ranks["0"].progressed == at(10)
    assert window.marks.ranks["1"].progressed == at(0)


def test_a_rank_that_a_scrape_does_not_name_keeps_its_last_word():
    fold = builder()
    fold.add(sample(0, rank(running=2)))
    window = fold.add(sample(10, scrape=EngineReading(ranks=())))
    assert window.marks.ranks["0"].last.running == 2
    assert window.marks.ranks["0"].progressed == at(0)


def test_a_rank_that_is_named_no_more_beside_others_is_gone_after_a_minute():
    """Elastic ranks: what the one that was taken away did last is no work that waits."""
    fold = builder()
    fold.add(sample(0, rank("0"), rank("1", running=2)))
    assert set(fold.add(sample(30, rank("0"))).marks.ranks) == {"0", "1"}
    assert set(fold.add(sample(40, rank("0"), rank("1", running=2))).marks.ranks) == {"0", "1"}
    assert set(fold.add(sample(70, rank("0"))).marks.ranks) == {"0", "1"}
    assert set(fold.add(sample(100, rank("0"))).marks.ranks) == {"0"}
    fold.add(sample(130, scrape=EngineReading(ranks=())))
    assert set(fold.add(sample(160, scrape=EngineReading(ranks=()))).marks.ranks) == {"0"}, "none is named"


@pytest.mark.parametrize(
    "after",
    [
        sample(20, rank(generation_tokens=3)),
        sample(20, rank(generation_tokens=100), start=2.0),
    ],
    ids=["a counter fell", "another process answers"],
)
def test_an_engine_that_began_anew_is_measured_from_there(after: Sample):
    fold = builder()
    fold.add(sample(0, rank(generation_tokens=100)))
    fold.add(sample(10, rank(generation_tokens=100)))
    mark = fold.add(after).marks.ranks["0"]
    assert (mark.since, mark.progressed) == (at(20), at(20))


def test_a_gauge_that_falls_is_no_new_beginning():
    fold = builder()
    fold.add(sample(0, rank(kv_usage=0.5)))
    mark = fold.add(sample(10, rank(kv_usage=0.1, running=0))).marks.ranks["0"]
    assert mark.since == at(0)


def test_a_gap_in_looking_measures_silence_from_here_on():
    fold = builder()
    fold.add(sample(0, rank()))
    fold.add(sample(10, rank(), connections=Connections(0)))
    window = fold.add(sample(300, rank(), xids=(Xid("G", 31),)))
    assert len(window.samples) == 1
    assert window.marks.ranks["0"].progressed == at(300)
    assert window.marks.clients.clientless is None
    assert window.ready == at(0)
    assert window.marks.since == at(300)


def test_a_short_delay_on_a_loaded_host_is_no_gap():
    fold = WindowBuilder(at(0), derive(None, [], {"period": 0.5}))
    fold.add(sample(0))
    assert len(fold.add(sample(12)).samples) == 2


# ── readiness ─────────────────────────────────────────────────────────────────────────────────────────────────────

REFUSED = Missed(Miss.REFUSED, "refused")
READY_LINE = LogEvent("ready", phase=Phase.READY)


@pytest.mark.parametrize(
    ("look", "ready"),
    [
        (sample(0), True),
        (sample(0, health=Health(503, 0.1)), False),
        (sample(0, health=REFUSED, scrape=REFUSED), False),
        (sample(0, health=None), True),
        (sample(0, health=None, scrape=REFUSED), False),
        (sample(0, health=None, scrape=Missed(Miss.UNSUPPORTED, "no metrics")), False),
        (sample(0, health=None, scrape=Missed(Miss.UNSUPPORTED, "no metrics"), log=(READY_LINE,)), True),
        (sample(0, health=Missed(Miss.TIMEOUT, "t"), log=(READY_LINE,)), False),
    ],
)
def test_ready_is_what_serves(look: Sample, ready: bool):
    assert (builder().add(look).ready is not None) is ready


def test_ready_is_said_once_and_given_by_the_one_who_adopts():
    fold = builder(ready=at(-500))
    assert fold.add(sample(0, health=REFUSED, scrape=REFUSED)).ready == at(-500)


def test_phases_hold_the_newest_line_of_each_step():
    fold = builder()
    steps = [(Phase.BOOT, None), (Phase.LOAD, 0.1), (Phase.LOAD, 0.9), (Phase.KV_CACHE, None)]
    window = fold.add(sample(0, health=REFUSED, log=tuple(LogEvent("x", phase, ratio) for phase, ratio in steps)))
    assert [(event.phase, event.ratio) for event in window.phases] == [
        (Phase.BOOT, None),
        (Phase.LOAD, 0.9),
        (Phase.KV_CACHE, None),
    ]


def test_the_percent_of_a_step_never_falls():
    """Graphs are captured for one kind of batch after the other, ranks and draft models load one after the other."""
    fold = builder()
    told = [(Phase.LOAD, 0.9), (Phase.GRAPHS, 0.2), (Phase.LOAD, 0.3), (Phase.LOAD, None), (Phase.GRAPHS, 0.1)]
    shown = []
    for seconds, (phase, ratio) in enumerate(told):
        window = fold.add(sample(seconds, health=REFUSED, log=(LogEvent("x", phase, ratio),)))
        shown.append((window.phases[-1].phase, window.phases[-1].ratio))
    assert shown == [(Phase.LOAD, 0.9), (Phase.GRAPHS, 0.2), (Phase.LOAD, 0.9), (Phase.LOAD, 0.9), (Phase.GRAPHS, 0.2)]


# ── failures ──────────────────────────────────────────────────────────────────────────────────────────────────────

FAILURE = LogEvent("boom", failure=FailureClass.CUDA_FAULT)


def test_a_failure_line_that_tokens_followed_for_long_is_forgotten():
    fold = builder()
    window = fold.add(sample(0, rank(), log=(FAILURE,)))
    for tick in range(1, 8):
        window = fold.add(sample(tick * 10.0, rank(generation_tokens=tick)))
    assert window.failures == ()


def test_a_failure_line_with_silence_after_it_stays():
    fold = builder()
    fold.add(sample(0, rank(), log=(FAILURE,)))
    for tick in range(1, 30):
        window = fold.add(sample(tick * 10.0, rank()))
    assert window.failures == (FAILURE,)
    assert window.marks.failed == (at(0),)


def test_of_very_many_failure_lines_the_first_are_kept():
    fold = builder()
    lines = tuple(LogEvent(str(number), failure=FailureClass.NCCL) for number in range(500))
    window = fold.add(sample(0, health=REFUSED, log=lines))
    assert len(window.failures) == KEPT_EACH
    assert window.failures[0].text == "0"


def test_a_start_that_fails_at_the_same_again_and_again_does_not_hide_its_end():
    fold = builder()
    for tick in range(200):
        fold.add(starting(tick * 10.0, line(FailureClass.NETWORK)))
    assert fold.add(starting(2000, FAILURE)).failures[-1] is FAILURE


# ── failures of a start that goes on ──────────────────────────────────────────────────────────────────────────────


def line(failure: FailureClass) -> LogEvent:
    return LogEvent(failure, failure=failure)


def starting(seconds: float, *log: LogEvent) -> Sample:
    return sample(seconds, scrape=REFUSED, health=REFUSED, log=log)


def cause(window) -> FailureClass | None:
    found = root_cause(window.failures)
    return found.failure if found else None


LATER = LogEvent("loads", phase=Phase.LOAD)


@pytest.mark.parametrize(
    ("complaint", "went_on", "ended", "end", "expected"),
    [
        # an optional file that may not be fetched, a look-up of a path on the hub: minutes later its memory ran out
        (FailureClass.AUTHENTICATION, 70, 80, FailureClass.GPU_OOM, FailureClass.GPU_OOM),
        # one rank of several fails, the others load for minutes; then all is over, and nobody says why again
        (FailureClass.GPU_OOM, 70, 300, FailureClass.START_FAILED, FailureClass.GPU_OOM),
        # the others go on for a moment only
        (FailureClass.GPU_OOM, 20, 30, FailureClass.CUDA_FAULT, FailureClass.GPU_OOM),
    ],
)
def test_what_a_start_went_on_after_is_a_cause_only_where_nothing_better_ended_it(
    complaint, went_on, ended, end, expected
):
    fold = builder()
    fold.add(starting(0, line(complaint)))
    fold.add(starting(went_on, LATER))
    assert cause(fold.add(starting(ended, line(end)))) is expected


def test_an_engine_that_has_been_ready_for_a_minute_outlived_what_its_start_complained_of():
    """Without any request, so without any progress: hours later its core is killed, and a restart is all it needs."""
    fold = builder()
    fold.add(starting(0, line(FailureClass.AUTHENTICATION), line(FailureClass.NVML_LOST)))
    for seconds in (10, 40, 70):
        window = fold.add(sample(seconds, rank()))
    assert window.failures == ()
    assert cause(fold.add(sample(80, log=(line(FailureClass.ENGINE_DEAD),)))) is FailureClass.ENGINE_DEAD


@pytest.mark.parametrize("failure", sorted(OF_A_START))
def test_what_only_a_start_can_end_with_is_no_failure_of_an_engine_in_service(failure):
    fold = builder(ready=at(-3600))
    assert fold.add(sample(0, rank(), log=(line(failure),))).failures == ()


@pytest.mark.parametrize("failure", sorted(set(FailureClass) - OF_A_START))
def test_what_can_end_an_engine_in_service_is_kept(failure):
    fold = builder(ready=at(-3600))
    assert cause(fold.add(sample(0, rank(), log=(line(failure),)))) is failure


@pytest.mark.parametrize("ready", [None, at(-10)])
def test_a_line_that_may_be_the_rest_of_what_a_client_sent_counts_in_a_start_alone(ready):
    """TabbyAPI's console wraps lines: a traceback of Python's own and half a prompt look the same."""
    event = TabbyApi().read_log("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    fold = builder(ready=ready)
    window = fold.add(sample(0, scrape=REFUSED, health=REFUSED, log=(event,)))
    assert cause(window) is (FailureClass.GPU_OOM if ready is None else None)


def test_a_line_of_tabbyapis_own_counts_in_service_too():
    event = TabbyApi().read_log("2026-05-16 04:01:40.123 ERROR:    torch.OutOfMemoryError: CUDA out of memory.")
    assert cause(builder(ready=at(-10)).add(sample(0, log=(event,)))) is FailureClass.GPU_OOM


@pytest.mark.parametrize("failure", sorted(FailureClass))
def test_an_engine_that_dies_right_after_it_was_ready_keeps_every_cause(failure):
    """Its port may have been answered by somebody else."""
    fold = builder(ready=at(-10))
    assert cause(fold.add(sample(0, rank(), log=(line(failure),)))) is failure


# ── the KV gauge ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_gauge_that_moves_under_the_same_requests_shows_steps():
    fold = builder()
    fold.add(sample(0, rank(kv_usage=0.1)))
    assert fold.add(sample(10, rank(kv_usage=0.1001))).marks.ranks["0"].steps_visible is Gauge.SHOWN


def test_a_gauge_that_moves_because_a_request_came_shows_nothing():
    fold = builder()
    fold.add(sample(0, rank(running=1, kv_usage=0.1)))
    assert fold.add(sample(10, rank(running=2, kv_usage=0.2))).marks.ranks["0"].steps_visible is Gauge.UNKNOWN


def test_a_gauge_at_rest_while_thousands_of_tokens_are_made_is_refuted():
    fold = builder()
    fold.add(sample(0, rank(generation_tokens=0)))
    assert fold.add(sample(10, rank(generation_tokens=2000))).marks.ranks["0"].gauge is Gauge.UNKNOWN
    assert fold.add(sample(20, rank(generation_tokens=5000))).marks.ranks["0"].gauge is Gauge.REFUTED


def test_a_counter_of_steps_needs_no_proof():
    stepping = replace(rank(), steps=("flops",))
    assert builder().add(sample(0, stepping)).marks.ranks["0"].steps_visible is Gauge.SHOWN


# ── clients, canaries, effort ─────────────────────────────────────────────────────────────────────────────────────


def test_unknown_connections_are_not_zero():
    fold = builder()
    fold.add(sample(0, connections=Connections(0)))
    window = fold.add(sample(10, connections=Missed(Miss.NO_RIGHTS, "no")))
    assert window.marks.clients.clientless == at(0), "what is unknown changes nothing"
    assert fold.add(sample(20, connections=Connections(1))).marks.clients.clientless is None
    assert builder().add(sample(0, connections=Missed(Miss.NO_RIGHTS, "no"))).marks.clients.clientless is None


def test_the_agents_own_canary_is_no_request_without_a_client():
    window = builder().add(sample(0, rank(running=1), connections=Connections(0), canary_out=True))
    assert window.marks.clients.clientless is None


def test_strikes_count_until_something_proves_life():
    fold = builder()
    miss = Canary(False, 5.0, "no answer", timed_out=True)
    fold.add(sample(0, rank(running=0)))
    assert fold.add(sample(10, rank(running=0), canary=miss)).marks.canaries.strikes == 1
    assert fold.add(sample(20, rank(running=0), canary=miss)).marks.canaries.strikes == 2
    assert fold.add(sample(30, rank(running=1))).marks.canaries.strikes == 0


def test_a_question_that_the_engine_would_not_take_is_no_strike():
    refusal = Canary(False, 0.1, "HTTP 401", status=401)
    marks = builder().add(sample(0, canary=refusal)).marks
    assert (marks.canaries.strikes, marks.canaries.unfit) == (0, "HTTP 401")


@pytest.mark.parametrize(
    ("first", "second", "moved"),
    [
        ({"activity": Activity(1, 10.0)}, {"activity": Activity(1, 11.0)}, True),
        ({"activity": Activity(1, 10.0)}, {"activity": Activity(1, 10.1)}, False),
        ({"activity": Activity(1, 10.0, io_bytes=1.0)}, {"activity": Activity(1, 10.0, io_bytes=2.0)}, True),
        ({"activity": Activity(1, 10.0, own_bytes=0)}, {"activity": Activity(1, 10.0, own_bytes=1 << 30)}, True),
        ({"activity": Activity(1, 10.0, own_bytes=0)}, {"activity": Activity(1, 10.0, own_bytes=1 << 20)}, False),
        ({"activity": Activity(1, 10.0, own_bytes=0)}, {"activity": Activity(1, 10.0, own_bytes=None)}, False),
        ({"activity": Activity(1, 10.0)}, {"activity": Activity(1, 10.0, compilers=("nvcc",))}, True),
        (
            {"activity": Activity(1, 10.0, compilers=("nvcc",))},
            {"activity": Activity(1, 10.0, compilers=("nvcc",))},
            False,
        ),
        ({"gpus": (GpuSample("G", memory_used=0),)}, {"gpus": (GpuSample("G", memory_used=1 << 30),)}, True),
        ({"gpus": (GpuSample("G", memory_used=0),)}, {"gpus": (GpuSample("G", memory_used=None),)}, False),
        ({}, {"log_lines": 1}, True),
        ({}, {"log_lines": 1, "log": (LogEvent("waits", hang=True),)}, False),
        ({}, {}, False),
    ],
)
def test_a_start_up_moves_by_log_disk_processor_or_card(first, second, moved):
    fold = builder()
    fold.add(sample(0, health=REFUSED, scrape=REFUSED, **first))
    window = fold.add(sample(10, health=REFUSED, scrape=REFUSED, **second))
    assert (window.marks.effort.moved == at(10)) is moved


def test_idle_power_is_learned_only_while_nothing_runs():
    fold = builder()
    fold.add(sample(0, rank(running=1), gpus=(GpuSample("G", power_w=300.0),)))
    fold.add(sample(10, rank(running=0), gpus=(GpuSample("G", power_w=70.0),)))
    window = fold.add(sample(20, rank(running=0), gpus=(GpuSample("G", power_w=60.0),)))
    assert window.marks.effort.idle_power == {"G": 60.0}


def test_kills_for_memory_count_from_the_first_look_on():
    fold = builder()
    fold.add(sample(0, oom_kills=7))
    assert fold.add(sample(10, oom_kills=9)).marks.oom_kills == 2
    assert fold.add(sample(20)).marks.oom_kills == 2, "not read is not zero"


def test_xids_stay_with_their_time():
    fold = builder()
    fold.add(sample(0, xids=(Xid("G", 79, "off the bus"),)))
    for tick in range(1, 400):
        window = fold.add(sample(tick * 10.0))
    assert [(xid.number, xid.at) for xid in window.marks.xids] == [(79, at(0))]


def test_scrapes_that_are_not_to_be_had_are_not_failing():
    fold = builder()
    window = fold.add(sample(0, scrape=Missed(Miss.HTTP, "HTTP 404")))
    assert window.marks.answers.failing is None
    window = fold.add(sample(10, scrape=Missed(Miss.TIMEOUT, "slow")))
    assert window.marks.answers.failing == at(10)
    assert window.marks.answers.refused is None
