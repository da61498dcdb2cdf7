"""How far a start is: by its own word, and by what the longest start on this host took."""

from __future__ import annotations

import pytest

from agent.engines.model import LogEvent, Phase
from agent.verdict.model import Judged
from tests.verdict import scenarios as s
from tests.verdict.series import Series, World, pp4_watch

STEPS = {
    "start_s": 450.0,
    "phase_s.boot": 30.0,
    "phase_s.load": 300.0,
    "phase_s.kv_cache": 20.0,
    "phase_s.graphs": 100.0,
}


def starts(*steps: tuple[float, LogEvent], seconds: float, learned: dict[str, float]):
    """The verdict after so many seconds of a start whose lines came at these times."""

    def script(world: World, at: float) -> None:
        world.scrape, world.health, world.io = s.REFUSED, s.REFUSED, at
        world.log += [line for when, line in steps if when == at]

    return Series(script, seconds, ready_since=None, learned=learned).play()[-1].verdict


LOAD = LogEvent("load", phase=Phase.LOAD)


@pytest.mark.parametrize(
    ("steps", "seconds", "learned", "left"),
    [
        pytest.param((), 10, STEPS, 20 + 420, id="booting"),
        pytest.param(((30, LOAD),), 130, STEPS, 200 + 120, id="loading for 100 s of 300 s"),
        pytest.param(((30, LOAD),), 430, STEPS, 0 + 120, id="loading for longer than then"),
        pytest.param(
            ((30, LOAD), (130, LogEvent("half", phase=Phase.LOAD, ratio=0.5))), 130, STEPS, 100 + 120, id="half of it"
        ),
        pytest.param(
            ((30, LOAD), (130, LogEvent("some", phase=Phase.LOAD, ratio=0.01))), 130, STEPS, 200 + 120, id="1 % of it"
        ),
        pytest.param(((30, LOAD), (130, LogEvent("g", phase=Phase.GRAPHS))), 180, STEPS, 50, id="a step left out"),
        pytest.param((), 100, {"start_s": 450.0}, 350, id="its length alone is known"),
        pytest.param((), 500, {"start_s": 450.0}, 0, id="longer than ever"),
        pytest.param((), 100, {}, None, id="nothing is known"),
    ],
)
def test_the_time_left_is_told_from_the_longest_start(steps, seconds, learned, left):
    verdict = starts(*steps, seconds=seconds, learned=learned)
    assert verdict.figures.get("startup_left_seconds") == left
    assert ("left" in verdict.why) is bool(left)


@pytest.mark.parametrize("ready", [True, False])
def test_an_engine_that_cannot_be_seen_from_here_is_never_judged(ready):
    """Neither stuck in its start, nor dead because its port refuses, nor healthy: for hours."""

    def script(world: World, at: float) -> None:
        world.hidden = "the agent runs in a container without the host's network: start it with network_mode: host"
        world.scrape = world.health = s.REFUSED

    since = {} if ready else {"ready_since": None}
    verdicts = {tick.verdict.state: tick.verdict for tick in Series(script, 7200, **since).play()}
    assert list(verdicts) == [Judged.UNOBSERVABLE]
    (verdict,) = verdicts.values()
    assert "network_mode: host" in verdict.why
    assert {"metrics", "connections", "processes"} <= set(verdict.blind)
    assert not verdict.wants_canary


def test_a_slow_start_promises_nothing():
    def script(world: World, at: float) -> None:
        world.scrape, world.health, world.io = s.REFUSED, s.REFUSED, at

    watch = pp4_watch(start_alert=900.0)
    verdict = Series(script, 1000, watch=watch, ready_since=None, learned=STEPS).play()[-1].verdict
    assert verdict.kind == "start_slow"
    assert "left" not in verdict.why
