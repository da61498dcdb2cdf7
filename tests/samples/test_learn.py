"""What is learned of an engine on this host, and what would be learned wrongly and is not."""

from __future__ import annotations

import pytest

from agent.clock import Instant
from agent.container.port import ContainerView, RunState
from agent.engines.model import EngineReading, LogEvent, Phase, RankReading
from agent.plan.windows import derive
from agent.samples.learn import learned
from agent.samples.model import GpuSample, Health, Miss, Missed, Sample
from agent.samples.window import WindowBuilder

WATCH = derive(None, [], {})
VIEW = ContainerView("c", "n", "s", "p", 1, RunState.RUNNING, pid=1)
REFUSED = Missed(Miss.REFUSED, "refused")


def at(seconds: float) -> Instant:
    return Instant(1000.0 + seconds, 2000.0 + seconds)


def look(
    seconds: float, running: float, prompt: float, count: float, total: float, cached: float = 0.0, **more
) -> Sample:
    rank = RankReading("0", running, 0.0, prompt_tokens=prompt, progress={"prompt_tokens": prompt, "running": running})
    scrape = EngineReading((rank,), prefill_seconds_count=count, prefill_seconds_sum=total, cached_tokens=cached)
    return Sample(at=at(seconds), container=VIEW, scrape=scrape, health=Health(200, 0.01), **more)


def window_of(*samples: Sample, **more):
    fold = WindowBuilder(at(0), WATCH, ready=at(-10), **more)
    for sample in samples:
        window = fold.add(sample)
    return window


LONG = (look(0, 0, 100, 3, 1.0), look(10, 1, 100, 3, 1.0), look(20, 1, 50_100, 3, 1.0), look(30, 0, 50_100, 4, 13.0))


def test_a_request_that_had_the_engine_to_itself_gives_a_measured_prefill():
    found = learned(window_of(*LONG))
    assert (found["prefill_tokens"], found["prefill_s"]) == (50_000, 12.0)


@pytest.mark.parametrize(
    "last",
    [
        look(30, 0, 50_100, 5, 13.0),
        look(30, 0, 50_100, 4, 13.0, cached=16.0),
        look(30, 1, 50_100, 4, 13.0),
        look(30, 0, 100, 3, 1.0),
    ],
    ids=["two ended", "the cache helped", "another runs", "none ended"],
)
def test_nothing_is_learned_from_what_is_no_lone_cold_prefill(last: Sample):
    assert "prefill_s" not in learned(window_of(*LONG[:3], last))


def test_a_shorter_prompt_than_the_known_one_teaches_nothing():
    assert "prefill_s" not in learned(window_of(*LONG, learned={"prefill_tokens": 60_000.0, "prefill_s": 14.0}))


def test_a_start_is_learned_only_when_all_of_it_was_seen():
    fold = WindowBuilder(at(0), WATCH)
    fold.add(Sample(at=at(1), container=VIEW, scrape=REFUSED, health=REFUSED))
    for second in range(10, 200, 10):
        fold.add(Sample(at=at(second), container=VIEW, scrape=REFUSED, health=REFUSED))
    assert learned(fold.add(look(200, 0, 0, 0, 0)))["start_s"] == 200.0
    assert "start_s" not in learned(window_of(look(0, 0, 0, 0, 0)))


def test_idle_power_is_learned_when_it_is_lower():
    watts = (GpuSample("G", power_w=58.0),)
    assert learned(window_of(look(0, 0, 0, 0, 0, gpus=watts))) == {"idle_power_w.G": 58.0}
    assert not learned(window_of(look(0, 0, 0, 0, 0, gpus=watts), learned={"idle_power_w.G": 50.0}))


def booting(seconds: float, *lines: LogEvent) -> Sample:
    return Sample(at=at(seconds), container=VIEW, scrape=REFUSED, health=REFUSED, log=lines)


def started(*, learned_before: dict[str, float] | None = None) -> WindowBuilder:
    """Boot until 20 s, load until 120 s, compile until 150 s, ready at 200 s."""
    fold = WindowBuilder(at(0), WATCH, learned=learned_before)
    fold.add(booting(10))
    fold.add(booting(20, LogEvent("load", phase=Phase.LOAD)))
    fold.add(booting(60, LogEvent("load", phase=Phase.LOAD, ratio=0.4)))
    fold.add(booting(120, LogEvent("compile", phase=Phase.COMPILE)))
    fold.add(booting(150, LogEvent("graphs", phase=Phase.GRAPHS)))
    return fold


def test_the_steps_of_the_longest_start_are_learned_with_it():
    found = learned(started().add(look(200, 0, 0, 0, 0)))
    assert found["start_s"] == 200.0
    assert {key: found[f"phase_s.{key}"] for key in ("boot", "load", "compile", "graphs")} == {
        "boot": 20.0,
        "load": 100.0,
        "compile": 30.0,
        "graphs": 50.0,
    }
    assert set(found) == {"start_s", *(f"phase_s.{phase}" for phase in Phase)}, "no step of an older start stays"


def test_a_quicker_start_leaves_all_of_the_longest_as_it_was():
    window = started(learned_before={"start_s": 450.0, "phase_s.load": 300.0}).add(look(200, 0, 0, 0, 0))
    assert learned(window) == {}


def test_what_was_learned_is_known_from_then_on():
    fold = started()
    fold.know(learned(fold.add(look(200, 0, 0, 0, 0))))
    assert learned(fold.add(look(210, 0, 0, 0, 0))) == {}
