"""Traffic against claims: which claim is compared, when there is no comparison, when it has been slow."""

from __future__ import annotations

from typing import Any

import pytest

from agent.plan.model import Claim
from agent.verify.live import LOW_FOR_S, Compared, Course, Look, nearest, step

PERIOD = 10.0


def decode(value: float, concurrency: int | None, context: int | None = None) -> Claim:
    return Claim("decode_tok_s", value, concurrency, context, (concurrency or 1) > 1, f"points c{concurrency}")


ALONE, SHORT, LONG = decode(60.0, 1), decode(64.0, 1, 8_192), decode(40.0, 1, 131_072)
EIGHT = decode(200.0, 8)


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
        ([Claim("prefill_tok_s", 4000.0, 1, None, False, "points")], 1, None, None),
    ],
)
def test_the_nearest_claim_promises_no_more_than_there_is(
    claims: list[Claim], together: int, context: float | None, expect: Claim | None
) -> None:
    """Never one of more requests than run; of contexts the nearest that is known, else the least; stated ones only."""
    assert nearest(claims, together, context) == expect


def looks(seconds: float, rate: float | None, running: float | None, start: float = 0.0, **more: Any) -> list[Look]:
    figures = {"decode_tokens_per_second": rate, "requests_running": running, **more}
    known = {name: value for name, value in figures.items() if value is not None}
    return [Look(start + number * PERIOD, known) for number in range(int(seconds / PERIOD) + 1)]


def walk(*series: list[Look]) -> tuple[Course, Compared | None]:
    course, compared = Course(), None
    for look in (look for part in series for look in part):
        course, compared = step(course, look, [ALONE, EIGHT])
    return course, compared


def test_a_rate_is_compared_once_requests_ran_all_the_time_that_it_is_taken_over() -> None:
    """Half a minute of traffic says nothing of a rate over a minute; a whole one does."""
    assert walk(looks(30, 24.0, 1.0))[1] is None
    _, compared = walk(looks(70, 24.0, 1.0))
    assert compared is not None
    assert (compared.ratio, compared.point) == (0.4, "live decode c1")


@pytest.mark.parametrize(
    "gap", [Look(80.0, {"decode_tokens_per_second": 24.0, "requests_running": 0.0}), Look(80.0, {})]
)
def test_traffic_with_a_pause_is_not_compared(gap: Look) -> None:
    """Nobody was there, or nobody knows: the rate over that minute is no rate of decoding."""
    assert walk(looks(70, 24.0, 1.0), [gap], looks(30, 24.0, 1.0, start=90.0))[1] is None


def test_the_fewest_that_ran_are_compared() -> None:
    """Eight for half of the minute and one for the rest do not have to reach what eight claim."""
    _, compared = walk(looks(70, 50.0, 8.0), looks(30, 50.0, 1.0, start=80.0))
    assert compared is not None
    assert compared.claim == ALONE


@pytest.mark.parametrize(
    ("series", "expect"),
    [
        ([looks(590, 24.0, 1.0)], False),
        ([looks(LOW_FOR_S + 80, 24.0, 1.0)], True),
        ([looks(LOW_FOR_S + 80, 36.1, 1.0)], False),
        ([looks(500, 24.0, 1.0), looks(60, 55.0, 1.0, start=510.0), looks(500, 24.0, 1.0, start=580.0)], False),
        ([looks(400, 24.0, 1.0), looks(3600, None, 0.0, start=410.0), looks(400, 24.0, 1.0, start=4020.0)], True),
        ([looks(200, 24.0, 1.0), looks(200, 24.0, 1.0, start=90_000.0)], False),
    ],
    ids=["too short", "ten minutes", "above 60 %", "good in between", "a pause of nobody", "nobody looked for a day"],
)
def test_slow_is_ten_minutes_of_slow_traffic(series: list[list[Look]], expect: bool) -> None:
    """Added up over pauses without traffic, begun anew by a good minute."""
    assert walk(*series)[0].slow is expect


def test_what_a_request_holds_is_read_from_the_cache() -> None:
    """A tenth of a million tokens in two requests is 50,000 each; unknown where the engine names no size."""
    figures = {"kv_cache_usage_ratio": 0.1, "requests_running": 2.0}
    assert Look(0.0, figures, 1e6).context == 50_000.0
    assert Look(0.0, figures).context is None


def test_the_best_acceptance_is_remembered() -> None:
    """What it was is what a fall is measured by."""
    course, _ = walk(
        looks(20, 60.0, 1.0, spec_decode_acceptance_ratio=0.8),
        looks(20, 60.0, 1.0, start=30.0, spec_decode_acceptance_ratio=0.3),
    )
    assert course.best_acceptance == 0.8
