"""Traffic against claims: which claim is compared, when there is no comparison, when it has been slow."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest

from agent.clock import Instant
from agent.engines.model import EngineReading, RankReading
from agent.plan.model import Claim
from agent.samples.model import Miss, Missed, Sample
from agent.verify.live import LOW_FOR_S, Compared, Course, Look, look_of, nearest, step

PERIOD = 10.0


def decode(value: float, concurrency: int | None, context: int | None = None) -> Claim:
    return Claim("decode_tok_s", value, concurrency, context, (concurrency or 1) > 1, f"points c{concurrency}")


ALONE, SHORT, LONG = decode(60.0, 1), decode(64.0, 1, 8_192), decode(40.0, 1, 131_072)
EIGHT = decode(200.0, 8)
PREFILL = Claim("prefill_tok_s", 4000.0, 1, 32_768, False, "points")
CLAIMS = (ALONE, EIGHT, PREFILL)


@pytest.mark.parametrize(
    ("claims", "together", "context", "expect"),
    [
        ([ALONE, EIGHT], 1, None, ALONE),
        ([ALONE, EIGHT], 7, None, ALONE),
        ([ALONE, EIGHT], 8, None, EIGHT),
        ([ALONE, EIGHT], 30, None, EIGHT),
        ([ALONE, EIGHT], 0, None, None),
        ([EIGHT], 3, None, None),
        ([SHORT, LONG], 1, None, LONG),
        ([SHORT, LONG], 1, 9_000.0, SHORT),
        ([SHORT, LONG], 1, 100_000.0, LONG),
        ([decode(60.0, None)], 1, None, None),
        ([decode(60.0, 10**9), ALONE], 1, None, ALONE),
        ([PREFILL], 1, None, None),
        ([], 1, None, None),
    ],
)
def test_the_nearest_claim_promises_no_more_than_there_is(
    claims: list[Claim], together: int, context: float | None, expect: Claim | None
) -> None:
    """Never one of more requests than run; of contexts the nearest that is known, else the least; stated ones only."""
    assert nearest(claims, together, context) == expect


@dataclass
class Engine:
    """Counts as an engine does. `rate`: tokens of answers a second, `prompts`: prompt tokens computed a second."""

    at: float = 0.0
    made: float = 0.0
    prefilled: float = 0.0

    def serve(self, seconds: float, rate: float | None, running: float | None, **more: Any) -> list[Look]:
        """One look every ten seconds; `shown` is the rate that its figures say, where that is another."""
        prompts, shown = more.pop("prompts", 0.0), more.pop("shown", rate)
        looks = []
        for _ in range(int(seconds / PERIOD)):
            self.made += PERIOD * (rate or 0.0)
            self.prefilled += PERIOD * prompts
            figures = {"decode_tokens_per_second": shown, "requests_running": running, **more}
            known = {name: value for name, value in figures.items() if value is not None}
            looks.append(Look(self.at, known, self.made, self.prefilled))
            self.at += PERIOD
        return looks


def walk(*series: list[Look], claims: tuple[Claim, ...] = CLAIMS) -> Course:
    course = Course()
    for look in (look for part in series for look in part):
        course = step(course, look, claims)
    return course


def test_a_rate_is_compared_once_requests_ran_all_the_time_that_it_is_taken_over() -> None:
    """Half a minute of traffic says nothing of a rate over a minute; a whole one does."""
    assert walk(Engine().serve(40, 24.0, 1.0)).compared is None
    compared = walk(Engine().serve(70, 24.0, 1.0)).compared
    assert compared is not None
    assert (compared.ratio, compared.point) == (0.4, "live decode c1")


@pytest.mark.parametrize("known", [{"decode_tokens_per_second": 24.0, "requests_running": 0.0}, {}])
def test_traffic_with_a_pause_is_not_compared(known: dict[str, float]) -> None:
    """Nobody was there, or nobody knows: the rate over that minute is no rate of decoding."""
    engine = Engine()
    before = engine.serve(70, 24.0, 1.0)
    gap = replace(engine.serve(10, 24.0, 1.0)[0], figures=known)
    assert walk(before, [gap], engine.serve(40, 24.0, 1.0)).compared is None


def test_the_fewest_that_ran_are_compared() -> None:
    """Eight for half of the minute and one for the rest do not have to reach what eight claim."""
    engine = Engine()
    compared = walk(engine.serve(70, 50.0, 8.0), engine.serve(30, 50.0, 1.0)).compared
    assert compared is not None
    assert compared.claim == ALONE


def test_between_two_claimed_points_the_lower_is_compared() -> None:
    compared = walk(Engine().serve(70, 150.0, 7.0)).compared
    assert compared is not None
    assert (compared.claim, compared.ratio) == (ALONE, 2.5)


def ten_minutes_and_more(engine: Engine, *parts: tuple[float, float | None, float | None]) -> Course:
    return walk(*[engine.serve(*part) for part in parts])


@pytest.mark.parametrize(
    ("parts", "expect"),
    [
        ([(590, 24.0, 1.0)], False),
        ([(LOW_FOR_S + 80, 24.0, 1.0)], True),
        ([(LOW_FOR_S + 80, 36.1, 1.0)], False),
        ([(500, 24.0, 1.0), (60, 55.0, 1.0), (500, 24.0, 1.0)], False),
        ([(400, 24.0, 1.0), (3600, None, 0.0), (400, 24.0, 1.0)], True),
    ],
    ids=["too short", "ten minutes", "above 60 %", "good in between", "a pause of nobody"],
)
def test_slow_is_ten_minutes_of_slow_traffic(parts: list[tuple[float, float, float]], expect: bool) -> None:
    """Added up over pauses without traffic, begun anew by a good minute."""
    assert ten_minutes_and_more(Engine(), *parts).slow is expect


def test_what_nobody_looked_at_was_not_slow() -> None:
    """The agent slept for a day between two slow stretches (a suspended host)."""
    engine = Engine()
    before = engine.serve(200, 24.0, 1.0)
    engine.at += 90_000.0
    assert not walk(before, engine.serve(200, 24.0, 1.0)).slow


def test_the_same_look_again_is_no_more_slowness() -> None:
    """An engine that is not looked at any more proves nothing, however often its last look is shown."""
    looks = Engine().serve(100, 24.0, 1.0)
    course = walk(looks)
    assert course.compared is not None
    assert walk(looks, [looks[-1]] * 1000) == course


# ── what is no rate of decoding ───────────────────────────────────────────────────────────────────────────────────


def bursts(engine: Engine, seconds: float, every: int, tokens: float) -> list[Look]:
    """Tokens are counted when their request ends, once in so many looks; the rate is what a minute's counts make."""
    looks: list[Look] = []
    for number in range(int(seconds / PERIOD)):
        engine.made += tokens if number % every == every - 1 else 0.0
        before = looks[-6].made if len(looks) >= 6 else 0.0
        rate = (engine.made - (before or 0.0)) / 60.0
        figures = {"decode_tokens_per_second": rate, "requests_running": 1.0}
        looks.append(Look(engine.at, figures, engine.made, 0.0))
        engine.at += PERIOD
    return looks


@pytest.mark.parametrize(
    "looks",
    [
        Engine().serve(1200, 0.0, 1.0),
        Engine().serve(1200, 0.5, 1.0, prompts=1800.0),
        Engine().serve(1200, 6.0, 8.0, prompts=3500.0),
        bursts(Engine(), 3600, 30, 6_000.0),
        bursts(Engine(), 1200, 3, 600.0),
        Engine().serve(1200, 24.0, None),
        [replace(look, made=None) for look in Engine().serve(1200, 24.0, 1.0)],
        [replace(look, prefilled=None) for look in Engine().serve(1200, 24.0, 1.0)],
        Engine().serve(1200, 24.0, 1.0, shown=None),
    ],
    ids=["a prompt of twenty minutes, or a stall", "one token a request", "long prompts, short answers",
         "counted when a request of five minutes ends", "counted when one of half a minute ends",
         "nobody counts requests", "nobody counts tokens", "nobody counts prompts", "no rate"],
)  # fmt: skip
def test_what_is_no_rate_of_decoding_is_not_compared(looks: list[Look]) -> None:
    """Hours of it make no engine slow."""
    course = walk(looks)
    assert (course.compared, course.slow_s) == (None, 0.0)


def test_few_prompts_do_not_hide_slowness() -> None:
    """A conversation: a tenth of the time goes into prompts, by their claim."""
    assert walk(Engine().serve(800, 24.0, 1.0, prompts=400.0)).slow


@pytest.mark.parametrize(("prompts", "expect"), [(40.0, True), (400.0, False)])
def test_without_a_claim_of_prompts_only_few_of_them_are_borne(prompts: float, expect: bool) -> None:
    """What a prompt costs is not known then."""
    assert walk(Engine().serve(800, 24.0, 1.0, prompts=prompts), claims=(ALONE,)).slow is expect


@pytest.mark.parametrize("claims", [CLAIMS, (ALONE,)], ids=["claimed", "nothing claimed of prompts"])
def test_what_was_slow_for_a_prompt_that_nobody_saw_yet_was_not_slow(claims: tuple[Claim, ...]) -> None:
    """A prompt of two minutes is counted at its end, and slows the others down until then; again and again, for an
    hour."""
    engine, looks = Engine(), []
    for _ in range(20):
        looks += engine.serve(120, 2.0, 2.0)
        engine.prefilled += 4000.0 * 120
        looks += engine.serve(60, 24.0, 2.0)
    assert not walk(looks, claims=claims).slow


def test_a_counter_that_falls_is_another_engine() -> None:
    """It restarted by itself: what it does is seen afresh."""
    course = walk(Engine().serve(100, 24.0, 1.0), Engine(at=100.0).serve(40, 24.0, 1.0))
    assert course.compared is None


@pytest.mark.parametrize(("value", "expect"), [(1e300, True), (5e-324, False)])
def test_a_ratio_is_a_number_or_there_is_none(value: float, expect: bool) -> None:
    """A claim may be of any size; what no number can say is not said."""
    compared = walk(Engine().serve(70, 24.0, 1.0), claims=(decode(value, 1),)).compared
    assert (compared is not None and math.isfinite(compared.ratio)) is expect


# ── what a sample says ────────────────────────────────────────────────────────────────────────────────────────────


def sample(*ranks: RankReading, **more: Any) -> Sample:
    return Sample(Instant(5.0, 1e9), Missed(Miss.GONE, "not asked"), EngineReading(ranks, **more))


def test_ranks_are_added_up() -> None:
    """Two data-parallel ranks: what both made; what a request holds by the mean of their caches."""
    one = RankReading("0", running=3.0, kv_usage=0.3, prompt_tokens=1000.0, generation_tokens=70.0)
    two = RankReading("1", running=1.0, kv_usage=0.1, prompt_tokens=500.0, generation_tokens=30.0)
    look = look_of(sample(one, two, kv_tokens=1e6, cached_tokens=400.0), {})
    assert (look.made, look.prefilled, look.context) == (100.0, 1100.0, 50_000.0)


def test_counters_of_steps_go_before_those_of_ended_requests() -> None:
    """SGLang's: tokens as they are made, prompts as they are computed."""
    rank = RankReading("0", running=1.0, prompt_tokens=9.0, generation_tokens=7.0, decoded=80.0, prefilled=2000.0)
    look = look_of(sample(rank), {})
    assert (look.made, look.prefilled, look.context) == (80.0, 2000.0, None)


def test_a_scrape_that_failed_says_nothing() -> None:
    """The figures beside it are those of the last one that did not."""
    missed = replace(sample(), scrape=Missed(Miss.TIMEOUT, "no answer in 5 s"))
    look = look_of(missed, {"requests_running": 1.0, "decode_tokens_per_second": 24.0})
    assert (look.number("requests_running"), look.made) == (None, None)


# ── drafts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_best_acceptance_is_a_level_of_ten_minutes() -> None:
    """What it was is what a fall is measured by."""
    engine = Engine()
    course = walk(
        engine.serve(1200, 60.0, 1.0, spec_decode_acceptance_ratio=0.8),
        engine.serve(1200, 60.0, 1.0, spec_decode_acceptance_ratio=0.3),
    )
    assert course.best_acceptance == pytest.approx(0.8)


def test_a_minute_of_easy_text_is_no_level() -> None:
    """Of a few drafts all may be taken, and text that repeats itself is easy: no other text has to keep up with it."""
    engine = Engine()
    course = walk(
        engine.serve(20, 60.0, 1.0, spec_decode_acceptance_ratio=1.0),
        engine.serve(1800, 60.0, 1.0, spec_decode_acceptance_ratio=0.6),
        engine.serve(60, 60.0, 1.0, spec_decode_acceptance_ratio=1.0),
        engine.serve(60, 60.0, 1.0, spec_decode_acceptance_ratio=0.6),
    )
    assert course.best_acceptance is not None
    assert course.best_acceptance < 0.66


def test_a_compared_rate_shows_its_claim() -> None:
    """The label of its series."""
    assert Compared(LONG, 24.0, 1, None).point == "live decode c1 @131072"
