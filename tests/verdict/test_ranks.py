"""Data-parallel ranks with nothing to do: each is asked by its number, and one that hung while idle is found.

As seen on vLLM 0.32 with two ranks: the front end gives requests to the ranks in turn; a core that hangs while idle
takes its share and shows none of it, its gauges stay at 0; a request that names a rank goes to that rank alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from agent.samples.marks import Canaries
from agent.verdict import signs
from agent.verdict.case import Case
from agent.verdict.model import Judged, Remedy
from tests.verdict.rank_worlds import IDLE_ASK_S, KNOWN, SOON_S, STEP_S, TWO_STRIKES_S, life, of, play, window
from tests.verdict.rows import Loud, must_fire
from tests.verdict.series import PP4, Rank, Series, World, faults, pp4_watch, timeline

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


def test_just_after_a_start_a_rank_is_asked_no_sooner_than_an_engine_is() -> None:
    """Kernels may still be compiled, and what is asked for a number's sake must not look like a hang."""
    script = life()
    Series(script, 700, **of(2), ready_since=0.0).play()
    assert script.balancers[0].asked[0][0] >= IDLE_ASK_S


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
