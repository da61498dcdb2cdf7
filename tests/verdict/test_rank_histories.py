"""Histories of data-parallel ranks: healthy ones that look like a hang, and hangs that something else would hide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.action.replay import replay
from agent.engines.model import EngineReading
from agent.plan.windows import derive
from agent.samples.recording import read_recording, write_recording
from agent.verdict.model import Judged
from tests.verdict import scenarios as s
from tests.verdict.rank_worlds import IDLE_ASK_S, SOON_S, STEP_S, TWO_STRIKES_S, Balancer, life, of, play, window
from tests.verdict.series import PP4, PP4_CLAIMS, Series, World, faults, pp4_watch, timeline

# ── histories of healthy engines that looked like a hang ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("picks_first", [True, False], ids=["the first", "in turn"])
@pytest.mark.parametrize("turn", range(4))
@pytest.mark.parametrize("ranks", [2, 3])
def test_that_a_name_counts_is_not_concluded_from_luck(picks_first: bool, turn: int, ranks: int) -> None:
    """The front end gives what it is asked to the rank that was named, because that one was next anyhow. (vLLM before
    0.10, and its paths for vectors and scores; SGLang before 0.5.10.) Later everybody waits behind rank 0's prefill."""
    script = life(ranks=ranks, takes_names=False, picks_first=picks_first, turn=turn)

    def later(world: World, at: float) -> None:
        script(world, at)
        prefills = at > 3000
        world.rank.running, world.rank.kv = int(prefills), 0.001 * (at % 800) if prefills else 0.0
        world.clients = int(prefills)
        script.balancers[0].hung = frozenset({"0"} if prefills else ())

    ticks = play(later, 4800, ranks)
    assert True not in {tick.window.marks.canaries.aims for tick in ticks}
    assert not faults(ticks), timeline(ticks)
    asked = [at for at, _ in script.balancers[0].asked if at < 3000]
    assert len(asked) <= 3000 / IDLE_ASK_S + 4, "asked again and again"


def test_a_rank_that_was_taken_away_is_not_asked() -> None:
    """Elastic ranks: those that this look does not show are no ranks any more, and a question to them may be lost."""
    idle = life(ranks=4)

    def script(world: World, at: float) -> None:
        idle(world, at)
        balancer = idle.balancers[0]
        if at >= 1000:
            balancer.hung = frozenset({"2", "3"})
            del world.ranks[2:]

    ticks = play(script, 4000, 4)
    assert not faults(ticks), timeline(ticks)
    assert {name for at, name in idle.balancers[0].asked if at > 1010} == {"0", "1"}


@pytest.mark.parametrize("clients", [0, 1])
def test_what_a_rank_did_before_it_was_taken_away_is_no_work(clients: int) -> None:
    """It was seen with a request last; the others have nothing to do later, and a pool's connection stays."""
    idle = life(busy_from=650.0)

    def script(world: World, at: float) -> None:
        idle(world, at)
        if at >= 900 and len(world.ranks) > 1:
            world.ranks[1].running = 1
        if at >= 1000:
            del world.ranks[1:]
        if at >= 1500:
            world.idle()
            world.rank.running, world.clients = 0, clients

    ticks = play(script, 4000)
    assert not faults(ticks), timeline(ticks)
    assert ticks[-1].verdict.state is Judged.READY, timeline(ticks)


@pytest.mark.parametrize("answer", ["503 The model is currently scaling", "500 Internal Server Error", "429 busy"])
def test_an_answer_that_is_no_token_is_no_hang(answer: str) -> None:
    """A core that hangs answers nothing. What is said at once is said by the HTTP side: of the name, or of the time."""
    idle = life(busy_from=650.0)

    def script(world: World, at: float) -> None:
        idle(world, at)
        idle.balancers[0].refuses_names = answer if 800 <= at < 1100 else ""

    ticks = play(script, 2400)
    assert not faults(ticks), timeline(ticks)


SPOILT = ("asleep", "gap", "own progress")


@pytest.mark.parametrize("spoilt", SPOILT)
def test_a_strike_that_does_not_count_is_not_there_for_the_next_one(spoilt: str) -> None:
    """Two that were lost for different reasons are not two in a row, though none was answered in between."""
    idle = life(busy_from=650.0)
    lost: list[float] = []

    def script(world: World, at: float) -> None:
        idle(world, at)
        balancer, rank = idle.balancers[0], world.ranks[1]
        if "1" in balancer.hung and balancer.asked[-1] == (at - STEP_S, "1"):
            lost.append(at - STEP_S)
        due = at >= 650 if not lost else len(lost) < 2 and at > lost[0] + 100
        balancer.hung = frozenset({"1"} if due else ())
        since = at - lost[0] if lost else 0.0
        rank.asleep = spoilt == "asleep" and since in (20.0, 30.0)
        rank.prompt += 10 * (spoilt == "own progress" and since == 40.0)

    blackout = (760.0, 880.0) if spoilt == "gap" else None
    ticks = Series(script, 9000, **of(2), blackout=blackout).play()
    assert len(lost) == 2
    assert spoilt != "gap" or lost[0] < 760.0 <= lost[0] + 40.0, "the gap is in another place than the question"
    assert not faults(ticks), timeline(ticks)


class Steps:
    """Ranks that share a step (expert parallel): rank 0 works in steps of so many seconds, an idle one answers at the
    end of the step after that in which it was asked."""

    def __init__(self, seconds: float, begins: float = 650.0) -> None:
        self.seconds, self.begins, self.idle = seconds, begins, life()

    def __call__(self, world: World, at: float) -> None:
        first = not self.idle.balancers
        self.idle(world, at)
        if first:
            balancer = self.idle.balancers[0]
            world.aimed = lambda name, when: self.ask(balancer, name, when)
        if at < self.begins:
            return
        world.work()
        done = (at - self.begins) // self.seconds
        rank = world.rank
        rank.running, rank.kv, world.clients = 1, 0.001 * (done % 500), 1

    def ask(self, balancer: Balancer, name: str, at: float) -> float | str | None:
        takes = balancer.ask(name, at)
        if at < self.begins or not isinstance(takes, float):
            return takes
        ends = ((at - self.begins) // self.seconds + 2) * self.seconds + self.begins
        return ends - at


@pytest.mark.parametrize("chunk", [65536, 131072])
def test_ranks_that_share_a_step_are_given_two_of_the_longest(chunk: int) -> None:
    """A launch with large chunks: one step takes half a minute or a minute by the recipe's own figures."""
    engine = replace(PP4, chunk_tokens=chunk)
    steps = Steps(2 * chunk * 129 / 524288)
    ticks = Series(steps, 7200, **of(2), engine=engine, watch=derive(engine, PP4_CLAIMS, {})).play()
    assert not faults(ticks), timeline(ticks)


@pytest.mark.parametrize("seconds", [50.0, 70.0, 110.0, 170.0])
def test_a_rank_may_wait_for_a_step_that_takes_longer_than_any_should(seconds: float) -> None:
    """Nothing of the others moved while it was waited for: then it may be their step that it waits for."""
    ticks = play(Steps(seconds), 7200)
    assert not faults(ticks), timeline(ticks)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("at_once", [100.0, 290.0, 310.0])
def test_a_prefill_in_one_step_that_no_gauge_shows_yet_is_no_hang(ranks: int, at_once: float) -> None:
    """The gauges are written at a step's end: a whole prompt in one looks like nothing to do until then."""
    engine = replace(PP4, chunk_tokens=None, chunked=False)
    begins = 1200.0 + at_once
    idle = life(ranks=ranks)

    def script(world: World, at: float) -> None:
        idle(world, at)
        balancer = idle.balancers[0]
        if begins <= at < begins + 129:
            world.work()
            world.clients = 1
            balancer.wait = begins + 129 - at
        elif balancer.wait:
            balancer.wait, world.clients = 0.0, 0
            world.ranks[-1].prompt += 520_000

    ticks = play(script, 2400, ranks, engine=engine, watch=pp4_watch())
    assert not faults(ticks), timeline(ticks)


# ── hangs that were missed ────────────────────────────────────────────────────────────────────────────────────────


def test_a_busy_rank_is_asked_though_another_gave_no_token() -> None:
    """Rank 1 loses one canary and lives; rank 0 hung with its work before that. The strike is none of rank 0's."""
    idle = life(busy_from=650.0)

    def script(world: World, at: float) -> None:
        balancer = idle.balancers[0] if idle.balancers else None
        mine = [when for when, name in balancer.asked if name == "1" and when > 650] if balancer else []
        if balancer is None or not mine or at < mine[0]:
            idle(world, at)
            if balancer is not None:
                balancer.hung = frozenset({"1"} if at >= 650 else ())
            return
        balancer.hung = frozenset({"0"})
        if at == mine[0] + 40:
            world.ranks[1].prompt += 10

    ticks = play(script, 3600)
    assert faults(ticks), timeline(ticks)


@pytest.mark.parametrize("gap", [None, (700.0, 900.0)], ids=["watched", "a gap"])
@pytest.mark.parametrize("answer", ["", "503 busy", "404 no such model"])
@pytest.mark.parametrize("busy_from", [650.0, 7000.0])
def test_what_went_wrong_once_does_not_end_the_asking_for_ever(
    busy_from: float, gap: tuple[float, float] | None, answer: str
) -> None:
    """A refusal for another reason than the name, or a time in which nobody looked: the ranks are watched again, also
    where they are never all idle any more."""
    idle = life(hangs=9000.0, busy_from=busy_from)

    def script(world: World, at: float) -> None:
        idle(world, at)
        idle.balancers[0].refuses_names = answer if 1000 <= at < 1400 else ""

    ticks = play(script, 11_000, blackout=gap)
    assert faults(ticks), timeline(ticks)
    assert faults(ticks)[0].at >= 9000


def test_a_gap_in_looking_forgets_no_name() -> None:
    """A host that slept for a minute, and clients that never leave all ranks idle again."""
    ticks = play(life(busy_from=650.0, hangs=1200.0), 2400, blackout=(700.0, 800.0))
    assert faults(ticks), timeline(ticks)
    assert faults(ticks)[0].verdict.kind == "idle"


@pytest.mark.parametrize("pause", [200.0, 260.0])
def test_a_few_minutes_without_a_client_are_enough_to_see_that_a_number_counts(pause: float) -> None:
    """An engine that is used all day has no five of them. One minute of rest, and one look or two for each question (an
    answer is seen at the next look here, and at once by the agent)."""
    rests = life(ranks=2, hangs=3000.0)

    def script(world: World, at: float) -> None:
        rests(world, at)
        if 300 <= at < 300 + pause:
            world.rank.running, world.clients = 0, 0
        else:
            s.decode(world, at)

    ticks = play(script, 4000)
    assert faults(ticks), timeline(ticks)
    assert 3000 <= faults(ticks)[0].at <= 3000 + IDLE_ASK_S + TWO_STRIKES_S + 2 * STEP_S + SOON_S


@pytest.mark.parametrize("who", ["0", "1", "01"])
def test_whichever_rank_hung_is_found(who: str) -> None:
    """The first, the last, both; all of them idle."""
    idle = life()

    def script(world: World, at: float) -> None:
        idle(world, at)
        idle.balancers[0].hung = frozenset(who if at >= 700 else ())

    ticks = play(script, 1400)
    assert faults(ticks), timeline(ticks)
    assert faults(ticks)[0].at <= 700 + IDLE_ASK_S + TWO_STRIKES_S + 2 * STEP_S + SOON_S


# ── what is kept of it ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("busy_from", [None, 650.0])
def test_a_recording_that_begins_long_after_the_numbers_were_seen_is_judged_as_it_was(busy_from: float | None) -> None:
    """It holds half an hour; that a number counts was seen before."""
    ticks = play(life(busy_from=busy_from, hangs=7000.0), 7600)
    recording = read_recording(write_recording(ticks[-1].window, PP4, pp4_watch()))
    assert recording.samples[0].at.mono > ticks[200].window.now.mono
    again = [(moment.state, moment.kind) for moment in replay(recording, pp4_watch())]
    judged = [(tick.verdict.state.value, tick.verdict.kind) for tick in ticks]
    assert ("stalled", "idle") in again
    assert again == judged[-len(again) :]


# ── SGLang ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Lagging:
    """SGLang's schedulers under attention parallelism (`0`, `1/tp1`): an idle one shows its last step for up to 30 s
    more, and what a request did is counted as it is computed."""

    def __init__(self, hangs: float | None = None, takes_names: bool = True) -> None:
        self.idle, self.hangs, self.shown = life(takes_names=takes_names), hangs, dict[int, float]()
        self.settles: dict[int, float] = {}

    def __call__(self, world: World, at: float) -> None:
        self.idle(world, at)
        balancer = self.idle.balancers[0]
        balancer.hung = frozenset({"1"} if self.hangs is not None and at >= self.hangs else ())
        for number, rank in enumerate(world.ranks):
            if rank.finished > self.shown.get(number, 5.0):
                rank.held, rank.kv, rank.extra = 12.0, 0.01, {"realtime.prefill_compute": rank.prompt}
                self.settles[number] = at + 30.0
            self.shown[number] = rank.finished
            if at >= self.settles.get(number, at + 1):
                rank.held, rank.kv = 0.0, 0.0
        readings = [rank.reading(name) for rank, name in zip(world.ranks, ("0", "1/tp1"), strict=True)]
        hidden = {"prompt_tokens", "generation_tokens", "finished"}
        told = [replace(one, progress={k: v for k, v in one.progress.items() if k not in hidden}) for one in readings]
        world.scrape = EngineReading(ranks=tuple(replace(one, held_tokens=one.held_tokens or 0.0) for one in told))


@pytest.mark.parametrize("hangs", [None, 1500.0])
def test_numbers_are_seen_to_count_though_gauges_lag(hangs: float | None) -> None:
    script = Lagging(hangs)
    ticks = play(script, 3600, engine=s.SGLANG)
    assert window(ticks[:120]).marks.canaries.aims is True, "in twenty minutes"
    found = faults(ticks)
    assert bool(found) is (hangs is not None), timeline(ticks)
    assert hangs is None or 1500 <= found[0].at <= 1500 + IDLE_ASK_S + TWO_STRIKES_S + 60 + SOON_S, timeline(ticks)


def test_lagging_gauges_make_no_answer_of_another_rank_a_named_ones() -> None:
    ticks = play(Lagging(takes_names=False), 7200, engine=s.SGLANG)
    assert True not in {tick.window.marks.canaries.aims for tick in ticks}
    assert not faults(ticks), timeline(ticks)


def test_a_recording_of_a_time_in_which_numbers_did_not_count_says_no_more() -> None:
    """A refusal ended it for an hour; what was seen before would make another verdict of it."""
    idle = life(busy_from=650.0)

    def script(world: World, at: float) -> None:
        idle(world, at)
        idle.balancers[0].refuses_names = "503 busy" if at >= 700 else ""

    ticks = play(script, 1800)
    assert ticks[-1].window.marks.canaries.aims is False
    assert read_recording(write_recording(ticks[-1].window, PP4, pp4_watch())).head.own == ()


def test_clients_that_come_while_a_rank_is_asked_put_off_no_further_question() -> None:
    """Whose its answer was cannot be told then, and need not be: it is known already that numbers count."""
    idle = life(ranks=2)
    began: list[float] = []

    def script(world: World, at: float) -> None:
        idle(world, at)
        balancer = idle.balancers[0] if idle.balancers else None
        if not began and balancer is not None and at > 650 and balancer.asked[-1] == (at - STEP_S, "1"):
            began.append(at)
        if began:
            balancer.hung = frozenset({"1"})
            s.decode(world, at)

    ticks = play(script, 2400, watch=pp4_watch(canary_idle=30.0))
    assert began
    found = faults(ticks)
    assert found, timeline(ticks)
    assert found[0].at - began[0] <= 30.0 + 2 * 60.0 + SOON_S, timeline(ticks)
