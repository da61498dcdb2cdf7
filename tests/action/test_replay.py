"""A recording through verdicts and decision: what happened, and what would have been done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.action.replay import changes, replay
from agent.plan.windows import derive
from agent.samples.recording import read_recording, write_recording
from tests.verdict import scenarios as s
from tests.verdict.series import PP4, Series, Tick, pp4_watch


def played(script, seconds: float, **how) -> list[Tick]:
    return Series(script, seconds, **how).play()


def told(ticks: list[Tick], engine=PP4, **windows: float):
    recording = read_recording(write_recording(ticks[-1].window, engine))
    return list(replay(recording, pp4_watch(**windows)))


@pytest.mark.parametrize(
    ("script", "engine"),
    [
        (s.n1, PP4),
        (s.n16, PP4),
        (s.n30, PP4),
        (s.then(s.hang), PP4),
        (s.then(s.f7), PP4),
        (s.then(s.f13), s.LLAMA),
        (s.then(s.f18), PP4),
        (s.then(s.f4), PP4),
        (s.then(s.f10), s.SGLANG),
    ],
)
def test_a_recorded_window_is_judged_as_it_was_when_it_was_taken(script, engine):
    ticks = played(script, 900, engine=engine)
    judged = [(tick.verdict.state.value, tick.verdict.kind) for tick in ticks]
    assert [(moment.state, moment.kind) for moment in told(ticks, engine)] == judged


@pytest.mark.parametrize(
    ("script", "engine", "steps"),
    [
        (s.n1, PP4, ["nothing"]),
        (s.then(s.hang), PP4, ["nothing", "ask_canary", "nothing", "restart"]),
        (s.then(s.f18), PP4, ["nothing", "quarantined"]),
        (s.n26, PP4, ["nothing", "stopped"]),
        (s.then(s.f7), PP4, ["nothing", "ask_canary", "nothing", "restart"]),
        (s.then(s.f7), s.DEV, ["nothing", "ask_canary", "nothing", "abort", "nothing", "abort_everything", "nothing"]),
    ],
)
def test_each_step_is_what_the_decision_says(script, engine, steps):
    found = [moment.step for moment in told(played(script, 900, engine=engine), engine)]
    once = [step for index, step in enumerate(found) if index == 0 or step != found[index - 1]]
    assert once[: len(steps)] == steps


def test_a_start_within_the_recording_is_judged_as_a_start():
    """Its head knows when the engine became ready; the refused port before that is no fault."""
    ticks = played(s.n5, 600, ready_since=None)
    states = [moment.state for moment in changes(told(ticks))]
    assert states == ["starting", "ready"]


def test_another_window_is_another_verdict():
    ticks = played(s.then(s.f2), 900)

    def restarts(stall: float) -> float:
        return next(moment.t for moment in told(ticks, stall=stall) if moment.step == "restart")

    assert restarts(240.0) - restarts(120.0) == 120.0


def test_only_what_changes_is_told_unless_all_is_wanted():
    moments = told(played(s.then(s.f4), 650))
    assert [moment.state for moment in changes(moments)] == ["busy", "dead"]
    assert len(moments) == 66


def test_a_start_that_fails_for_good_would_come_to_rest_as_failed():
    script = s.starts_and_fails(2, "vllm: error: unrecognized arguments: --no-such-flag")
    moments = told(played(script, 100, ready_since=None))
    assert (moments[0].state, moments[-1].step) == ("starting", "failed")


def test_times_are_the_recordings_own():
    recording = read_recording(['{"t": 7.5, "container": "exited"}'])
    moment = next(iter(replay(recording, pp4_watch())))
    assert moment.t == 7.5
    assert replace(moment).to_json()["state"] == "dead"


@pytest.mark.parametrize("derived", [True, False], ids=["somebody's word", "nobody's word"])
def test_a_recording_brings_the_windows_that_it_was_judged_by(derived: bool) -> None:
    """Whoever replays an incident's window alone must see what the agent saw."""
    watch = replace(pp4_watch(stall=8.0, zombie=5.0), derived=derived)
    window = played(s.then(s.hang), 60)[-1].window
    head = read_recording(write_recording(window, PP4, watch)).head
    again = derive(head.engine, [], head.watch, {})
    own = {name: span.seconds for name, span in watch.spans().items() if derived or not name.startswith("stall")}
    assert own.items() <= {name: span.seconds for name, span in again.spans().items()}.items()
    assert again.derived is derived
