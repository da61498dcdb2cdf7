"""Data-parallel ranks with nothing to do: each is asked by its number, and one that hung while idle is found.

As seen on vLLM 0.32 with two ranks: the front end gives requests to the ranks in turn; a core that hangs while idle
takes its share and shows none of it, its gauges stay at 0; a request that names a rank goes to that rank alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from agent.plan.windows import derive
from agent.samples.marks import Canaries
from agent.samples.model import Window
from agent.verdict import signs
from agent.verdict.case import Case
from agent.verdict.model import Judged, Remedy
from tests.verdict import scenarios as s
from tests.verdict.rows import Loud, must_fire
from tests.verdict.series import PP4, PP4_CLAIMS, Rank, Script, Series, Tick, World, faults, pp4_watch, timeline

STEP_S = 10.0
IDLE_ASK_S = 300.0
TWO_STRIKES_S = 60.0
KNOWN = ("0", "0", "1", "1", "0", "0")
"""Answers that have shown that a number counts."""
SOON_S = 3 * STEP_S
"""A look late, for the ask and each of two answers."""


@dataclass
class Balancer:
    """Gives what names no rank to the ranks in turn; notes who was asked for."""

    world: World
    hung: frozenset[str] = frozenset()
    takes_names: bool = True
    picks_first: bool = False
    """What names no rank goes to the first that is least loaded, as by vLLM with one API server."""
    refuses_names: str = ""
    turn: int = 0
    wait: float = 0.0
    """Seconds until a step under way lets anything be answered."""

    def __post_init__(self) -> None:
        self.asked: list[tuple[float, str]] = []
        self.world.canary = lambda at: self.ask("", at)
        self.world.aimed = self.ask

    def ask(self, name: str, at: float) -> float | str | None:
        self.asked.append((at, name))
        if name and self.refuses_names:
            return self.refuses_names
        if self.picks_first and (not name or not self.takes_names):
            name = str(min(range(len(self.world.ranks)), key=lambda number: self.world.ranks[number].running))
        elif not name or not self.takes_names:
            self.turn += 1
            name = str(self.turn % len(self.world.ranks))
        if name in self.hung:
            return None
        self.world.on_token = lambda: self.count(self.world.ranks[int(name)])
        return self.wait + 0.2

    def count(self, rank: Rank) -> None:
        """One that was answered."""
        rank.prompt, rank.generated, rank.finished = rank.prompt + 10, rank.generated + 1, rank.finished + 1
        rank.gauges = True


def life(*, ranks: int = 2, busy_from: float | None = None, hangs: float | None = None, clients: int = 0,
         **how: Any) -> Any:  # fmt: skip
    """Idle; from `busy_from` on rank 0 decodes; from `hangs` on the last rank never answers. `clients` more than those
    that are served are connected from then on. `balancers` of the script are for looking at."""
    balancers: list[Balancer] = []

    def script(world: World, at: float) -> None:
        if not balancers:
            balancers.append(Balancer(world, **how))
        if busy_from is not None and at >= busy_from:
            s.decode(world, at)
        else:
            world.idle()
        if hangs is not None and at >= hangs:
            balancers[0].hung = frozenset({str(ranks - 1)})
            world.clients = int(world.clients or 0) + clients if busy_from is not None else clients

    script.balancers = balancers  # type: ignore[attr-defined]
    return script


def of(ranks: int, kind: Callable[[], Rank] = Rank) -> dict[str, Any]:
    return {"world": lambda: World(ranks=[kind() for _ in range(ranks)])}


def play(script: Script, seconds: float, ranks: int = 2, **how: Any) -> list[Tick]:
    return Series(script, seconds, **of(ranks), **how).play()


def window(ticks: list[Tick]) -> Window:
    return ticks[-1].window


LOUD = [
    Loud("all idle, one of two hangs", life(hangs=700.0), IDLE_ASK_S + TWO_STRIKES_S + SOON_S, Judged.STALLED,
         kind="idle", fault=700.0, how=of(2)),
    Loud("all idle, one of eight hangs", life(ranks=8, hangs=700.0), IDLE_ASK_S + TWO_STRIKES_S + 8 * STEP_S + SOON_S,
         Judged.STALLED, kind="idle", fault=700.0, how=of(8)),
    Loud("hung before the agent came", life(hangs=0.0), 2 * IDLE_ASK_S + TWO_STRIKES_S + SOON_S, Judged.STALLED,
         kind="idle", fault=0.0, how={**of(2), "ready_since": 0.0}),
    Loud("hung before its first step", life(hangs=0.0), 2 * IDLE_ASK_S + TWO_STRIKES_S + SOON_S, Judged.STALLED,
         kind="idle", fault=0.0, how={**of(2, Rank.untouched), "ready_since": 0.0}),
    Loud("the only rank hung before its first step", life(ranks=1, hangs=0.0), IDLE_ASK_S + TWO_STRIKES_S + SOON_S,
         Judged.STALLED, kind="idle", fault=0.0, how={**of(1, Rank.untouched), "ready_since": 0.0}),
    Loud("idle beside a busy one, hangs", life(busy_from=650.0, hangs=700.0), IDLE_ASK_S + TWO_STRIKES_S + SOON_S,
         Judged.STALLED, kind="idle", fault=700.0, how=of(2)),
    Loud("its clients wait beside a busy one", life(busy_from=650.0, hangs=700.0, clients=3),
         180 + TWO_STRIKES_S + SOON_S, Judged.STALLED, kind="idle", fault=700.0, how=of(2)),
]  # fmt: skip


@pytest.mark.parametrize("case", LOUD, ids=lambda case: case.row)
def test_a_rank_that_hung_while_idle_is_found(case: Loud) -> None:
    must_fire(case)


def test_the_sentence_names_the_rank_and_what_the_others_do() -> None:
    """A person on call sees at once that it is one of several."""
    ticks = play(life(busy_from=650.0, hangs=700.0), 1100)
    told = next(tick.verdict for tick in ticks if tick.verdict.state is Judged.STALLED)
    assert told.why == "rank 1 shows no request, and 2 canaries in a row got no token of it, while the others work"
    assert told.remedy is Remedy.RESTART
    suspect = next(tick.verdict for tick in ticks if tick.verdict.state is Judged.SUSPECT)
    assert suspect.canary_rank == "1"


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("busy_from", [None, 650.0])
@pytest.mark.parametrize("kind", [Rank, Rank.untouched], ids=["used", "untouched"])
def test_healthy_ranks_are_asked_each_in_its_turn_and_not_more_often(
    ranks: int, busy_from: float | None, kind: Callable[[], Rank]
) -> None:
    """Hours of it: no suspicion, and a rank that was asked is left in peace for as long again."""
    script = life(ranks=ranks, busy_from=busy_from)
    ticks = Series(script, 7200, **of(ranks, kind)).play()
    assert {tick.verdict.state for tick in ticks} <= {Judged.READY, Judged.BUSY}, timeline(ticks)
    asked = script.balancers[0].asked
    assert asked[len(KNOWN) - 1][0] <= IDLE_ASK_S + len(KNOWN) * STEP_S, "those that tell come one after the other"
    for number in range(ranks):
        times = [at for at, name in asked[len(KNOWN) :] if name == str(number)]
        assert all(later - at >= IDLE_ASK_S for at, later in pairwise(times))
        if busy_from is None or number:
            assert len(times) >= 7200 / (IDLE_ASK_S + ranks * STEP_S + 2 * STEP_S) - 2
    if busy_from is not None:
        assert [at for at, name in asked if name == "0" and at > busy_from] == []


@pytest.mark.parametrize("hangs", [None, 700.0])
def test_a_version_that_does_not_know_the_header_is_asked_as_one(hangs: float | None) -> None:
    """Whose token came is told by the counters: then nothing is concluded of a single rank, and nobody is asked twice
    as often."""
    script = life(busy_from=650.0, hangs=hangs, takes_names=False)
    ticks = play(script, 3600)
    assert not faults(ticks), timeline(ticks)
    assert window(ticks).marks.canaries.aims is False
    assert len([at for at, _ in script.balancers[0].asked if at > 660.0]) == 0


@pytest.mark.parametrize("refusal", ["400 data_parallel_rank 4 is out of range", "500 list index out of range"])
def test_a_version_that_refuses_the_number_is_asked_without_it(refusal: str) -> None:
    """Ranks that are numbered otherwise (a node of several hosts): the canary is not lost for the engine."""
    script = life(refuses_names=refusal)
    ticks = play(script, 1800)
    assert {tick.verdict.state for tick in ticks} == {Judged.READY}
    assert all("canary" not in tick.verdict.blind for tick in ticks)
    assert window(ticks).marks.canaries.token is not None
    assert [name for _, name in script.balancers[0].asked[1:]] == [""] * (len(script.balancers[0].asked) - 1)


def test_beside_a_busy_rank_nobody_is_asked_before_a_name_was_seen_to_count() -> None:
    """An unknown version would put the canary behind a prefill of the busy rank and take that for a hang."""
    script = life(busy_from=0.0, hangs=0.0)
    ticks = play(script, 3600)
    assert not faults(ticks), timeline(ticks)
    assert script.balancers[0].asked == []


@pytest.mark.parametrize(
    ("rank", "aims", "is_sign"), [("1", True, False), ("0", True, True), ("", None, True), ("1", None, True)]
)
def test_a_strike_of_one_rank_is_no_sign_against_another(rank: str, aims: bool | None, is_sign: bool) -> None:
    """Rank 0 is silent in a prefill while rank 1 gives no token: only what rank 0 was asked for speaks against it."""

    def script(world: World, at: float) -> None:
        world.work()
        world.clients = world.rank.running = 1

    seen = window(play(script, 600))
    struck = Canaries(strikes=1, struck=seen.now, struck_after=30.0, struck_why="no answer", rank=rank)
    struck = replace(struck, own=KNOWN if aims else ())
    case = Case(replace(seen, marks=replace(seen.marks, canaries=struck)), pp4_watch(), PP4)
    assert case.silent is not None
    assert bool(signs.canary(case, case.quiet_since(case.silent[1]))) is is_sign


def test_a_request_that_comes_before_the_canary_is_no_hang() -> None:
    """The rank was idle when it was asked, and a prefill of 400 s was there first: its arrival clears the strike."""
    idle = life(busy_from=650.0)

    def script(world: World, at: float) -> None:
        idle(world, at)
        balancer, rank = idle.balancers[0], world.ranks[1]
        asked = [when for when, name in balancer.asked if name == "1" and when > 650.0]
        arrived = asked[0] if asked else at
        prefills = arrived < at <= arrived + 400
        rank.running, rank.kv = int(prefills), 0.001 * (at - arrived) if prefills else 0.0
        balancer.hung = frozenset({"1"} if 650 <= at <= arrived + 400 else ())

    ticks = play(script, 2400)
    assert any(tick.window.marks.canaries.struck for tick in ticks), "no canary waited behind the prefill"
    assert not faults(ticks), timeline(ticks)


def test_without_chunks_a_rank_is_waited_for_as_long_as_a_prefill_takes() -> None:
    """Ranks that share a step answer after the others' step, which is a whole prompt there."""
    engine = replace(PP4, chunk_tokens=None, chunked=False)
    ticks = play(life(busy_from=650.0), 1800, engine=engine, watch=pp4_watch())
    asks = [tick.verdict for tick in ticks if tick.verdict.wants_canary and tick.at > 660]
    assert asks
    assert {ask.canary_timeout_s for ask in asks} == {pp4_watch().canary_timeout.value}


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

    blackout = (980.0, 1100.0) if spoilt == "gap" else None
    ticks = Series(script, 9000, **of(2), blackout=blackout).play()
    assert len(lost) == 2
    assert spoilt != "gap" or lost[0] < 980.0 <= lost[0] + 40.0, "the gap is in another place than the question"
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
def test_what_went_wrong_once_does_not_end_the_asking_for_ever(gap: tuple[float, float] | None, answer: str) -> None:
    """A refusal for another reason than the name, or a time in which nobody looked: the ranks are watched again."""
    idle = life(hangs=9000.0)

    def script(world: World, at: float) -> None:
        idle(world, at)
        idle.balancers[0].refuses_names = answer if 1000 <= at < 1400 else ""
        if at >= 7000:
            s.decode(world, at)

    ticks = play(script, 11_000, blackout=gap)
    assert faults(ticks), timeline(ticks)
    assert faults(ticks)[0].at >= 9000


def test_a_gap_in_looking_forgets_no_name() -> None:
    """A host that slept for a minute, and clients that never leave all ranks idle again."""
    ticks = play(life(busy_from=650.0, hangs=1200.0), 2400, blackout=(700.0, 800.0))
    assert faults(ticks), timeline(ticks)
    assert faults(ticks)[0].verdict.kind == "idle"


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
