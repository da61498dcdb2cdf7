"""How far a start is: by its own word, and by what the longest start on this host took."""

from __future__ import annotations

from random import Random

import pytest

from agent.engines.model import LogEvent, Phase
from agent.samples.model import Miss, Missed
from agent.verdict.model import Judged
from tests.verdict import scenarios as s
from tests.verdict.series import Script, Series, Tick, World, faults, first_fault, pp4_watch, timeline

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


# ── what moves ────────────────────────────────────────────────────────────────────────────────────────────────────

SILENCE_S = pp4_watch().start_silence.value
JIT_S = pp4_watch().start_jit.value
LAST = 600.0
"""When the last of everything moves in a start that hangs."""


def begin(*movers: Script, seconds: float) -> list[Tick]:
    """A start that never gets ready, and of which only these move."""

    def script(world: World, at: float) -> None:
        world.scrape, world.health, world.cores, world.compilers = s.REFUSED, s.REFUSED, 0.01, ()
        for mover in movers:
            mover(world, at)

    return Series(script, seconds, ready_since=None).play()


def log(world: World, at: float) -> None:
    world.log.append("still at it")


def disk(world: World, at: float) -> None:
    world.io = at * 1e6


def processor(world: World, at: float) -> None:
    world.cores = 0.2


def card(world: World, at: float) -> None:
    world.memory = (20 << 20) * int(at)


def until(mover: Script, end: float = LAST) -> Script:
    def script(world: World, at: float) -> None:
        if at <= end:
            mover(world, at)

    return script


def trickle(world: World, at: float) -> None:
    world.io = at


@pytest.mark.parametrize("mover", [log, disk, trickle, processor, card])
def test_one_thing_that_moves_keeps_a_start_alive_and_its_end_is_found_within_the_window(mover):
    assert not faults(begin(mover, seconds=3600))
    found = first_fault(begin(until(mover), seconds=3600))
    assert found is not None
    assert (found.verdict.kind, found.at) == ("start", LAST + SILENCE_S)


def test_forty_minutes_from_a_slow_disk_are_a_load():
    """A shard in eight minutes, hardly any processor, the cards' memory taken at the beginning."""

    def shards(world: World, at: float) -> None:
        if at % 480 == 0:
            done = int(at / 480)
            world.log.append(f"Loading safetensors checkpoint shards:  {done * 20}% Completed | {done}/5 [08:00<08:00]")

    ticks = begin(disk, shards, seconds=2400)
    assert not faults(ticks), timeline(ticks)
    assert ticks[-1].verdict.progress == 1.0


def compilers(world: World, at: float) -> None:
    world.compilers = ("cicc", "nvcc")


def test_compilers_at_work_keep_a_start_alive_and_compilers_that_hang_do_not():
    """They wait for a lock that a killed one left, or for a disk: they are there, and use nothing."""
    assert not faults(begin(compilers, processor, seconds=7200))
    found = first_fault(begin(compilers, until(processor), seconds=7200))
    assert found is not None
    assert (found.verdict.kind, found.at) == ("start", LAST + JIT_S)


def test_compilers_that_have_ended_are_a_step():
    found = first_fault(begin(until(compilers, 1200), seconds=3600))
    assert found is not None
    assert found.at == 1210 + SILENCE_S


def percent(world: World, at: float) -> None:
    world.log.append(f"Loading safetensors checkpoint shards:  {min(int(at / 10), 100)}% Completed | 1/9 [00:01<00:01]")


def notes(world: World, at: float) -> None:
    """A file of its own in which each try is noted."""
    world.io = at * 400


def retries(world: World, at: float) -> None:
    world.log += ["Error while downloading: Read timed out.", "Trying to resume download..."] * 5


@pytest.mark.parametrize(
    ("movers", "alone"),
    [
        ([retries], "only its log moves"),
        ([processor], "only its processor works"),
        ([percent], ""),
        ([retries, percent], ""),
        ([retries, notes], "only its log moves"),
        ([retries, disk], ""),
        ([retries, processor], ""),
        ([retries, card], ""),
        ([processor, disk], ""),
        ([processor, card], ""),
        ([processor, compilers], ""),
    ],
)
def test_a_start_of_which_one_thing_alone_moves_is_said_to_be_unknown(movers, alone):
    """A download that is tried again each second, or threads that wait in a loop: it may get on, or never."""
    ticks = begin(*movers, seconds=SILENCE_S + 60)
    assert not faults(ticks)
    before, after = ticks[20].verdict, ticks[-1].verdict
    assert (before.kind, "whether it gets on" in before.why) == ("", False)
    assert after.kind == ("start_slow" if alone else "")
    assert alone in after.why
    assert ("whether it gets on is not known" in after.why) is bool(alone)


def test_a_percent_that_stands_still_is_no_word_of_getting_on():
    ticks = begin(percent, seconds=1000 + SILENCE_S)
    assert [tick.at for tick in ticks if "only its log moves" in tick.verdict.why] == [1000 + SILENCE_S]


def test_such_a_start_promises_no_end():
    def script(world: World, at: float) -> None:
        world.scrape = world.health = s.REFUSED
        world.cores = 0.01
        retries(world, at)

    told = Series(script, SILENCE_S + 60, ready_since=None, learned={"start_s": 7200.0}).play()
    assert "left" in told[5].verdict.why
    assert "left" not in told[-1].verdict.why


def test_clients_that_are_turned_away_are_no_sign_of_a_start_that_moves():
    def clients(world: World, at: float) -> None:
        world.log.append('INFO:     10.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 503 Service Unavailable')

    found = first_fault(begin(until(disk), clients, seconds=3600))
    assert found is not None
    assert found.at == LAST + SILENCE_S


# ── what cannot be seen ───────────────────────────────────────────────────────────────────────────────────────────


def no_disk(world: World, at: float) -> None:
    world.io = None  # type: ignore[assignment]  # what the agent may not read
    world.stuck = (77,)


def no_processes(world: World, at: float) -> None:
    world.processes = False


def no_cards(world: World, at: float) -> None:
    world.gpus = Missed(Miss.BROKEN, "the driver does not answer")


@pytest.mark.parametrize(
    ("unseen", "told"), [(no_disk, "its disk cannot be read"), (no_processes, "its disk and processor cannot be read")]
)
def test_what_cannot_be_read_is_not_known_to_stand_still(unseen, told):
    """A load of forty minutes from a disk whose counters belong to another user looks the same as a hang."""
    ticks = begin(unseen, seconds=2400)
    assert not faults(ticks)
    assert "cannot be read" not in ticks[10].verdict.why
    assert told in ticks[-1].verdict.why


def test_without_a_process_that_waits_in_the_kernel_nobody_reads_from_a_disk():
    """An agent without rights finds a start that hangs, too: nothing waits for a disk since its load has ended."""

    def loads(world: World, at: float) -> None:
        no_disk(world, at)
        world.stuck = (77,) if at <= LAST else ()

    found = first_fault(begin(loads, seconds=3600))
    assert found is not None
    assert found.at == LAST + SILENCE_S


@pytest.mark.parametrize("unseen", [no_disk, no_processes])
def test_what_could_not_be_read_for_a_while_is_given_the_whole_window_again(unseen):
    def seen_again(world: World, at: float) -> None:
        world.processes, world.io, world.stuck = True, 5.0, ()
        if at <= LAST:
            unseen(world, at)

    found = first_fault(begin(seen_again, seconds=2400))
    assert found is not None
    assert found.at == LAST + 10 + SILENCE_S


def test_cards_that_cannot_be_read_leave_no_doubt_where_the_processor_rests():
    found = first_fault(begin(no_cards, until(log), seconds=2400))
    assert found is not None
    assert found.at == LAST + SILENCE_S
    assert "cards cannot be read" in found.verdict.why


# ── percent and time left ─────────────────────────────────────────────────────────────────────────────────────────

TWO_PASSES = [
    "Loading safetensors checkpoint shards:  {}% Completed | 1/5 [00:01<00:01]",
    "Loading safetensors checkpoint shards:  {}% Completed | 1/1 [00:01<00:01]",
    "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  {}%|x| 1/67",
    "Capturing CUDA graphs (decode, FULL):  {}%|x| 1/35",
]


def test_two_passes_of_one_step_never_show_less_than_before():
    """vLLM loads a draft model after its target, and captures graphs for one kind of batch after the other."""
    lines = [form.format(percent) for form in TWO_PASSES for percent in (0, 25, 50, 75, 100)]

    def script(world: World, at: float) -> None:
        world.scrape = world.health = s.REFUSED
        world.io = at
        world.log.append(lines[min(int(at / 10), len(lines) - 1)])

    ticks = Series(script, 600, ready_since=None, learned=STEPS).play()
    shown = [(tick.verdict.phase, tick.verdict.progress) for tick in ticks]
    for phase in ("load", "graphs"):
        percents = [ratio for name, ratio in shown if name == phase]
        assert percents == sorted(percents), shown
        assert percents[-1] == 1.0


def test_a_step_that_is_all_done_and_goes_on_takes_what_it_took_then():
    done = ((30, LOAD), (130, LogEvent("all", phase=Phase.LOAD, ratio=1.0)))
    assert starts(*done, seconds=130, learned=STEPS).figures["startup_left_seconds"] == 200 + 120


@pytest.mark.parametrize("seed", range(20))
def test_whatever_a_start_writes_percent_and_time_left_stay_in_their_bounds(seed):
    rng = Random(seed)
    highest: dict[str, float] = {}

    def script(world: World, at: float) -> None:
        world.scrape = world.health = s.REFUSED
        world.io = at
        for _ in range(rng.randrange(4)):
            phase = rng.choice(list(Phase))
            ratio = rng.choice([None, 0.0, 0.05, rng.random(), 1.0])
            world.log.append(LogEvent("x", phase=phase if phase is not Phase.READY else Phase.WARM_UP, ratio=ratio))

    for tick in Series(script, 3000, ready_since=None, learned=STEPS).play():
        verdict = tick.verdict
        assert verdict.figures["startup_left_seconds"] >= 0
        if verdict.progress is not None:
            assert highest.get(verdict.phase or "", 0.0) <= verdict.progress <= 1.0
            highest[verdict.phase or ""] = verdict.progress
