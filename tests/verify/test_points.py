"""Which points are measured, and which are left out by name."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from agent.plan.model import Claim
from agent.profile.document import ClaimPoint
from agent.verify.points import MOST_NAMED, MOST_POINTS, Reach, chosen, points_of


def claim(metric: str, value: float, concurrency: int = 1, context: int | None = 1000) -> Claim:
    return Claim(metric, value, concurrency, context, concurrency > 1, "perf_points[0]")


FIGURES = {"prefill_tok_s": (4000.0, 4500.0), "ttft_ms": (250.0, 300.0)}
OPEN = Reach(None, None, None)


def test_claims_of_one_point_are_one_measurement() -> None:
    """Prefill rate and TTFT come from the same request; of two claims of one figure the harder is held up."""
    found, left = points_of(
        [
            claim("prefill_tok_s", 4000.0),
            claim("ttft_ms", 250.0),
            claim("prefill_tok_s", 4500.0),
            claim("ttft_ms", 300.0),
        ],
        OPEN,
        quick=False,
    )
    assert [point.name for point in found] == ["prefill c1 @1000"]
    assert found[0].claimed == {"prefill_tok_s": 4500.0, "ttft_ms": 250.0}
    assert left == ()


def test_a_prompt_leaves_room_for_the_answer() -> None:
    """The whole context is claimed: the prompt is what is left of it, and that counts as the claimed context."""
    found, _ = points_of([claim("decode_tok_s", 60.0, context=4096)], Reach(4096, None, None), quick=False)
    assert found[0].prompt_tokens + found[0].max_tokens == 4096
    assert found[0].context == 4096


@pytest.mark.parametrize(
    ("reach", "why"),
    [
        (Reach(2048, None, None), "context is 2,048"),
        (Reach(None, 4, None), "at most 4 requests"),
        (Reach(None, None, 10_000), "there are 10,000"),
    ],
)
def test_what_the_launch_cannot_reach_is_left_out_with_its_reason(reach: Reach, why: str) -> None:
    """Context, requests at once, KV cache."""
    found, left = points_of([claim("decode_tok_s", 200.0, concurrency=8, context=4096)], reach, quick=False)
    assert found == ()
    assert why in left[0].why


def test_quick_leaves_out_what_takes_long() -> None:
    """Long contexts and many requests are named as left out, not forgotten."""
    found, left = points_of(
        [claim("decode_tok_s", 60.0, context=32_768), claim("decode_tok_s", 50.0, context=524_288)], OPEN, quick=True
    )
    assert [point.context for point in found] == [32_768]
    assert [one.name for one in left] == ["decode c1 @524288"]


@pytest.mark.parametrize(
    ("concurrency", "context", "why"),
    [
        (10**6, None, "at most 512 requests"),
        (10**12, 10**12, "at most 512 requests"),
        (512, 10**12, "more than 32,000,000 tokens"),
        (1, 10**12, "more than 32,000,000 tokens"),
        (-3, 1000, "no request is like that"),
        (1, -1000, "no request is like that"),
    ],
)
def test_what_no_measurement_reaches_is_left_out_where_the_launch_says_nothing(
    concurrency: int, context: int | None, why: str
) -> None:
    """A claim is a stranger's word: it takes neither all connections nor all memory of this host."""
    found, left = points_of([claim("decode_tok_s", 60.0, concurrency, context)], OPEN, quick=False)
    assert found == ()
    assert why in left[0].why


def test_a_context_without_room_for_the_answer_is_left_out() -> None:
    found, left = points_of([claim("decode_tok_s", 60.0, context=200)], Reach(256, None, None), quick=False)
    assert found == ()
    assert "no room for 256" in left[0].why


def test_of_too_many_points_the_first_are_measured_and_the_rest_is_counted() -> None:
    """Every one of them can be asked for by its name."""
    claims = [claim("decode_tok_s", 60.0, context=1000 + number) for number in range(5000)]
    found, left = points_of(claims, OPEN, quick=False)
    taken, others = chosen(found, left, ())
    assert len(taken) == MOST_POINTS
    assert len(others) == MOST_NAMED + 1
    assert others[-1].why == f"{5000 - MOST_POINTS - MOST_NAMED:,} more points are left out"
    (one,), _ = chosen(found, left, ("@5999",))
    assert one.context == 5999


@pytest.mark.parametrize(
    "wrong",
    [{"value": float("inf")}, {"value": float("nan")}, {"value": -1.0}, {"concurrency": 0}, {"context": -5}],
    ids=["infinite", "no number", "negative", "nobody", "no context"],
)
def test_a_profile_states_no_such_figure(wrong: dict[str, float]) -> None:
    """A context below one ended the watch over normal traffic, which compares contexts by their logarithms."""
    right = {"metric": "decode_tok_s", "value": 60.0, "concurrency": 1, "context": 1000, "from": "config.notes"}
    ClaimPoint.model_validate(right)
    with pytest.raises(ValidationError):
        ClaimPoint.model_validate(right | wrong)
