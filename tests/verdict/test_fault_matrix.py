"""The fault matrix: what must never lead to an act, and what must be found in time.

Rows about acts (stop ladder, orphans before a start, memory that leaks over restarts, reboot, a card's memory that
cannot be read) are tested where the acts are.
"""

from __future__ import annotations

import pytest

from agent.engines.model import EngineKind, EngineLaunch, FailureClass
from agent.plan.model import Claim
from agent.plan.windows import derive
from agent.verdict.model import Judged, Remedy
from tests.verdict import scenarios as s
from tests.verdict.rows import STARTUP, SUSPECT, Loud, Quiet, must_fire, must_not_fire
from tests.verdict.series import Series, World, faults, first_fault, pp4_watch, states, timeline

DEEPINFER = EngineLaunch(EngineKind.VLLM, port=8000, health="/health", metrics="/metrics", max_model_len=1_048_576)
DEEPINFER_WATCH = derive(
    DEEPINFER,
    [
        Claim("prefill_tok_s", 4506.8, 1, 65536, False, "perf_points[1]"),
        Claim("ttft_ms", 10_700, 1, 65536, False, "perf_points[1]"),
    ],
    {},
)


QUIET = [
    Quiet("N1 cold 524K prefill, gauge moves", s.n1, 600, Judged.BUSY),
    Quiet("N1 the same, fresh after a start", s.n1, 600, Judged.BUSY, how={"ready_since": 10.0}),
    Quiet("N2 prefill that shows no step, loop answers", s.n2, 600, Judged.BUSY, SUSPECT),
    Quiet("N3 two prefills in a row", s.n3, 600, Judged.BUSY),
    Quiet("N4 idle for a day", s.nothing, 86_400, Judged.READY),
    Quiet("N5 start of 450 s", s.n5, 600, Judged.READY, frozenset({Judged.STARTING}), how=STARTUP),
    Quiet("N6 start with 20 minutes of compilers", s.n6, 1500, Judged.READY, frozenset({Judged.STARTING}), how=STARTUP),
    Quiet("N7 compilers at run time", s.n7, 300, Judged.BUSY),
    Quiet("N7 and the clients give up meanwhile", s.n7_left, 300, Judged.BUSY, SUSPECT),
    Quiet("N8 short compilations", s.n8, 600, Judged.BUSY),
    Quiet("N9 SGLang's lone prefill", s.n9, 200, Judged.BUSY, how={"engine": s.SGLANG}),
    Quiet("N10 forty minutes of one generation", s.n10, 2400, Judged.BUSY, how={"engine": s.SGLANG}),
    Quiet("N12 health times out in a burst", s.n12, 600, Judged.BUSY),
    Quiet("N14 asleep with requests queued", s.n14, 1800, Judged.ASLEEP, frozenset({Judged.BUSY})),
    Quiet("N14 paused with requests kept", s.n14_pause, 1800, Judged.ASLEEP, frozenset({Judged.BUSY})),
    Quiet("N15 counters begin anew", s.n15, 600, Judged.BUSY),
    Quiet(
        "N16 stale gauges",
        s.n16,
        900,
        Judged.READY,
        SUSPECT | {Judged.BUSY},
        lambda ticks: any(tick.verdict.kind == "stale_gauge" for tick in ticks),
    ),
    Quiet("N19 scrapes fail for a minute under load", s.n19, 600, Judged.BUSY, frozenset({Judged.UNOBSERVABLE})),
    Quiet("N19 and for ten minutes", s.n19_long, 900, Judged.UNOBSERVABLE, frozenset({Judged.BUSY})),
    Quiet(
        "N20 no metrics",
        s.n20,
        3600,
        Judged.READY,
        frozenset({Judged.BUSY}),
        lambda ticks: all("metrics" in tick.verdict.blind for tick in ticks),
    ),
    Quiet(
        "N22 a silence of 100 s that heals",
        s.n22,
        600,
        Judged.BUSY,
        SUSPECT,
        lambda ticks: states(ticks) == [Judged.BUSY, Judged.SUSPECT, Judged.BUSY],
    ),
    Quiet("N25 Xids that only tell", s.n25, 600, Judged.BUSY),
    Quiet("N26 a person stops it, exit 143", s.n26, 400, Judged.STOPPED, frozenset({Judged.BUSY})),
    Quiet("N27 one of three clients leaves", s.n27, 600, Judged.BUSY),
    Quiet("N28 forty minutes of thinking", s.n28, 2400, Judged.BUSY),
    Quiet(
        "N29 a standing keep-alive",
        s.n29,
        3600,
        Judged.READY,
        frozenset(),
        lambda ticks: "connections" in ticks[-1].verdict.blind and "connections" not in ticks[10].verdict.blind,
    ),
    Quiet("N30 eight on one connection", s.n30, 900, Judged.SUSPECT, frozenset({Judged.BUSY})),
    Quiet("N32 a person stops it, exit 0", s.n32, 400, Judged.STOPPED, frozenset({Judged.READY})),
    Quiet(
        "N33 a million tokens, no claim beyond 65,536",
        s.n33,
        600,
        Judged.BUSY,
        SUSPECT,
        how={"engine": DEEPINFER, "watch": DEEPINFER_WATCH},
    ),
    Quiet(
        "F17 a slow start that moves",
        s.f17,
        2000,
        Judged.STARTING,
        frozenset(),
        lambda ticks: (
            {tick.verdict.kind for tick in ticks} == {"", "start_slow"}
            and next(tick.at for tick in ticks if tick.verdict.kind) == 900
        ),
        STARTUP,
    ),
    Quiet("F32 the runtime hangs", s.then(s.f32), 1800, Judged.UNOBSERVABLE, frozenset({Judged.BUSY})),
]


@pytest.mark.parametrize("case", QUIET, ids=lambda case: case.row)
def test_must_not_fire(case: Quiet):
    """No act, no other state than the row allows, and it ends as it should."""
    must_not_fire(case)


LOUD = [
    Loud("F1 hang, loop ping times out", s.then(s.f1_ping), 240, Judged.STALLED, kind="busy", how={"engine": s.DEV}),
    Loud("F1 hang, canary alone", s.then(s.hang), 264, Judged.STALLED, kind="busy"),
    Loud("F2 a kernel spins", s.then(s.f2), 240, Judged.STALLED, kind="busy"),
    Loud("F3 a collective hangs", s.then(s.f3), 240, Judged.STALLED, kind="busy"),
    Loud("F4 core killed, exit 0", s.then(s.f4), 15, Judged.DEAD, kind="exit"),
    Loud("F5 core killed, kept alive", s.then(s.f5), 30, Judged.DEAD, kind="engine_dead"),
    Loud("F7 zombie burns", s.then(s.f7), 75, Judged.ZOMBIE, Remedy.ABORT, "zombie_burning"),
    Loud("F8 zombie holds", s.then(s.f8), 75, Judged.ZOMBIE, Remedy.ABORT, "zombie_held"),
    Loud("F10 SGLang's heartbeat grows old", s.then(s.f10), 240, Judged.STALLED, kind="busy", how={"engine": s.SGLANG}),
    Loud("F13 llama.cpp's loop is silent", s.then(s.f13), 240, Judged.STALLED, kind="busy", how={"engine": s.LLAMA}),
    Loud(
        "F14 TabbyAPI under load",
        s.then(s.f14_load, before=s.tabby_works),
        447 + 10,
        Judged.STALLED,
        kind="busy",
        how={"engine": s.TABBY},
    ),
    Loud(
        "F14 TabbyAPI idle",
        s.then(s.f14_idle, before=s.tabby_works),
        300 + 2 * 30 + 20,
        Judged.STALLED,
        kind="idle",
        how={"engine": s.TABBY},
    ),
    Loud(
        "F15 TensorRT-LLM's iterations stop",
        s.then(s.f15, before=s.trt_works),
        264,
        Judged.STALLED,
        kind="busy",
        how={"engine": s.TRTLLM},
    ),
    Loud("F16 a start that nothing moves", s.f16, 310, Judged.STALLED, kind="start", fault=120.0, how=STARTUP),
    Loud("F18 Xid 79", s.then(s.f18), 10, Judged.DEAD, Remedy.QUARANTINE, "xid"),
    Loud("F19 Xid 94, then it dies", s.then(s.f19), 15, Judged.DEAD, kind="exit"),
    Loud("F20 Xid 119", s.then(s.f20_xid), 10, Judged.DEAD, Remedy.QUARANTINE, "xid"),
    Loud("F20 recovery action", s.then(s.f20_action), 10, Judged.DEAD, Remedy.QUARANTINE, "recovery_action"),
    Loud(
        "F25 unknown flag",
        s.starts_and_fails(2, "vllm: error: unrecognized arguments: --no-such-flag"),
        15,
        Judged.DEAD,
        Remedy.GIVE_UP,
        "exit",
        FailureClass.BAD_FLAG,
        60.0,
        STARTUP,
    ),
    Loud(
        "F25 no kernel image",
        s.starts_and_fails(1, "CUDA error: no kernel image is available for execution on the device"),
        15,
        Judged.DEAD,
        Remedy.GIVE_UP,
        "exit",
        FailureClass.ARCHITECTURE,
        60.0,
        STARTUP,
    ),
    Loud(
        "F25 missing weights, the first cause in a pile",
        s.starts_and_fails(
            1,
            "OSError: /models/x is not a local folder and is not a valid model identifier",
            "(EngineCore) ERROR EngineCore failed to start.",
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            "RuntimeError: Engine core initialization failed. See root cause above.",
        ),
        15,
        Judged.DEAD,
        Remedy.GIVE_UP,
        "exit",
        FailureClass.MODEL_PATH,
        60.0,
        STARTUP,
    ),
    Loud(
        "F26 port in use",
        s.starts_and_fails(1, "OSError: [Errno 98] Address already in use"),
        15,
        Judged.DEAD,
        Remedy.RESTART,
        "exit",
        FailureClass.PORT,
        60.0,
        STARTUP,
    ),
    Loud("F27 out of host memory", s.then(s.f27), 15, Judged.DEAD, kind="host_oom", failure=FailureClass.HOST_OOM),
    Loud("F27 the core alone", s.then(s.f27_core), 15, Judged.DEAD, kind="host_oom", failure=FailureClass.HOST_OOM),
    Loud("F30 cards lost in the container", s.then(s.f30), 30, Judged.DEAD, kind="nvml_lost"),
    Loud("F33 hung while idle, clients wait", s.then(s.f33, before=s.nothing), 374, Judged.STALLED, kind="idle"),
    Loud(
        "F33 llama.cpp's loop hangs while idle",
        s.then(s.f33_llama, before=s.nothing),
        60 + 194 + 20,
        Judged.STALLED,
        kind="idle",
        how={"engine": s.LLAMA},
    ),
    Loud("F34 API server killed", s.then(s.f34), 15, Judged.DEAD, kind="exit"),
    Loud("F36 one of two cores killed", s.then(s.f36), 15, Judged.DEAD, kind="exit"),
    Loud(
        "F36 one of two ranks hangs",
        s.then(s.one_rank_hangs, before=s.both_decode),
        264,
        Judged.STALLED,
        kind="busy",
        how={"world": s.two_ranks},
    ),
]


@pytest.mark.parametrize("case", LOUD, ids=lambda case: case.row)
def test_must_fire(case: Loud):
    """Found within the row's bound, not before the fault, as what it is."""
    must_fire(case)


@pytest.mark.parametrize("case", [case for case in LOUD if case.kind == "busy"], ids=lambda case: case.row)
def test_silence_without_a_derived_window_is_told_and_nothing_more(case: Loud):
    """No claim and no measurement: suspect, whatever the second signs say."""
    engine = case.how.get("engine", s.PP4)
    how = {**case.how, "watch": derive(engine, [], {})}
    ticks = Series(case.script, case.fault + 2000, **how).play()
    assert not [tick for tick in faults(ticks) if tick.verdict.kind == "busy"], timeline(ticks)
    assert {Judged.SUSPECT, Judged.UNOBSERVABLE} & set(states(ticks)), timeline(ticks)


@pytest.mark.parametrize("case", LOUD, ids=lambda case: case.row)
def test_a_fault_is_still_one_after_its_evidence_was_gathered(case: Loud):
    """Nobody looks for half a minute then; the next look must not take the engine for a mere riddle again."""
    first = first_fault(Series(case.script, case.fault + case.within + 60, **case.how).play())
    assert first is not None
    how = {**case.how, "blackout": (first.at + 5.0, first.at + 35.0)}
    ticks = Series(case.script, first.at + 60, **how).play()
    assert {tick.verdict.kind for tick in ticks if tick.at > first.at} == {first.verdict.kind}, timeline(ticks)


@pytest.mark.parametrize("period", [1.0, 5.0, 10.0, 17.0])
@pytest.mark.parametrize("row", ["N1 cold", "N4 idle", "N22 a silence"])
def test_how_often_one_looks_changes_nothing_for_the_healthy(row: str, period: float):
    case = next(case for case in QUIET if case.row.startswith(row))
    ticks = Series(case.script, min(case.seconds, 3600), watch=pp4_watch(period=period)).play()
    assert not faults(ticks), timeline(ticks)


def test_the_world_is_a_fresh_one_each_time():
    assert World().ranks is not World().ranks
