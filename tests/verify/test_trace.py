"""What streams say together, and what cannot be true."""

from __future__ import annotations

import pytest

from agent.verify.compare import Measured, rows_of
from agent.verify.plausible import Model, limits_json, limits_of, limits_text
from agent.verify.points import Point
from agent.verify.prompt import prompt
from agent.verify.trace import Figure, Trace, decode_rate, doubt, prefill_rate


def stream(sent: float, first: float, pace: float, pieces: int, tokens: int | None = None) -> Trace:
    times = tuple(first + number / pace for number in range(pieces))
    return Trace(sent, times, tokens if tokens is not None else pieces, 1000)


def test_the_rate_of_one_stream_leaves_its_first_token_out() -> None:
    """However long the prefill took."""
    assert decode_rate([stream(0.0, 100.0, 50.0, 101)]) == pytest.approx(50.0)


def test_pieces_of_several_tokens_count_whole() -> None:
    """Speculative decoding sends three tokens a piece."""
    assert decode_rate([stream(0.0, 1.0, 20.0, 101, tokens=303)]) == pytest.approx(60.0)


def test_an_aggregate_counts_only_the_time_in_which_all_decode() -> None:
    """One that starts late and one that ends early do not water the rate down."""
    rate = decode_rate([stream(0.0, 1.0, 10.0, 101), stream(0.0, 3.0, 10.0, 101)])
    assert rate == pytest.approx(20.0, rel=0.02)


def test_requests_that_never_decode_side_by_side_have_no_aggregate() -> None:
    """A queue of one: no number is better than a wrong one."""
    assert decode_rate([stream(0.0, 1.0, 10.0, 11), stream(0.0, 5.0, 10.0, 11)]) is None


def test_a_burst_has_no_rate() -> None:
    """256 tokens read within 2 ms were made before they were read: 128,000 tok/s that no engine makes."""
    assert decode_rate([stream(0.0, 1.0, 128_000.0, 256)]) is None


def test_prefill_is_the_prompt_over_the_time_to_the_first_token() -> None:
    """1000 tokens in 0.25 s."""
    assert prefill_rate(stream(1.0, 1.25, 10.0, 4)) == pytest.approx(4000.0)


def test_a_rate_above_what_cards_can_compute_is_a_measuring_error() -> None:
    """Two operations a parameter and token: 37e9 active parameters on four A100s end at 16,864 tok/s."""
    limits = limits_of(("NVIDIA A100-SXM4-80GB",) * 4, Model(37e9, bits=16.0))
    assert limits.computed == pytest.approx(16_864.9, abs=0.1)
    assert limits.rejects("prefill_tok_s", 4061.0) is None
    assert "measuring error" in (limits.rejects("prefill_tok_s", 42_000.0) or "")
    assert limits.rejects("ttft_ms", 1e9) is None


@pytest.mark.parametrize(
    ("card", "bits", "factor"),
    [("NVIDIA H100 80GB HBM3", 16.0, 1), ("NVIDIA H100 80GB HBM3", 8.0, 2), ("NVIDIA H100 80GB HBM3", None, 2),
     ("NVIDIA B200", 4.0, 4)],
)  # fmt: skip
def test_narrow_numbers_are_computed_faster(card: str, bits: float | None, factor: int) -> None:
    """What is not known to be 16 bits wide may be computed in the card's narrowest format: no true rate is rejected."""
    wide = limits_of((card,), Model(10e9, bits=16.0)).computed
    found = limits_of((card,), Model(10e9, bits=bits)).computed
    assert wide is not None
    assert found == pytest.approx(factor * wide)


@pytest.mark.parametrize(
    ("card", "bandwidth"),
    [
        ("NVIDIA H100 80GB HBM3", 3.35e12),
        ("NVIDIA H100 NVL", 3.94e12),
        ("NVIDIA GH200 480GB", 4.9e12),
        ("NVIDIA GeForce RTX 3090", 0.936e12),
        ("NVIDIA GeForce RTX 3090 Ti", 1.01e12),
        ("NVIDIA A1000 Laptop GPU", None),
        ("NVIDIA RTX 40900", None),
    ],
)
def test_a_card_is_known_by_the_longest_name_that_stands_in_its_own(card: str, bandwidth: float | None) -> None:
    """A faster card that is called like a slower one would have its true rates called measuring errors."""
    assert limits_of((card,), Model(8e9, bits=16.0)).bandwidth == bandwidth


def test_one_request_decodes_no_faster_than_its_weights_are_read() -> None:
    """8e9 parameters of 16 bits are 16 GB a token: 127.5 tok/s of 2.04 TB/s, twice that for two requests."""
    limits = limits_of(("NVIDIA A100-SXM4-80GB",), Model(8e9, bits=16.0))
    assert limits.rejects("decode_tok_s", 127.0) is None
    assert "read weights" in (limits.rejects("decode_tok_s", 128.0) or "")
    assert limits.rejects("decode_tok_s", 254.0, concurrency=2) is None
    assert limits.rejects("prefill_tok_s", 5000.0) is None
    guessing = limits_of(("NVIDIA A100-SXM4-80GB",), Model(8e9, bits=16.0, steps=4))
    assert guessing.rejects("decode_tok_s", 500.0) is None


@pytest.mark.parametrize(
    ("names", "model", "word"),
    [
        (("unknown card",), Model(37e9, bits=16.0), "the peak of unknown card"),
        (("NVIDIA A100-SXM4-80GB",), Model(why_unknown="its launch names no model"), "its launch names no model"),
        ((), Model(37e9, bits=16.0), "no cards"),
    ],
    ids=["card", "model", "no cards"],
)
def test_what_is_not_known_limits_nothing_and_is_said(names: tuple[str, ...], model: Model, word: str) -> None:
    limits = limits_of(names, model)
    assert limits.rejects("prefill_tok_s", 1e12) is None
    assert limits.rejects("decode_tok_s", 1e12) is None
    assert word in limits_text(limits_json(limits))
    assert "not applied" in limits_text(limits_json(limits))


def test_rows_show_what_was_dropped_as_dropped() -> None:
    """A dropped point has no ratio and says why; a measured one has measured by claimed."""
    point = Point("decode", 1, 1000, 900, 100, {"decode_tok_s": 50.0})
    good, bad = rows_of(
        (Measured(point, {"decode_tok_s": Figure(25.0, 24.0, 26.0, 3)}), Measured(point, dropped="others"))
    )
    assert good.ratio == 0.5
    assert (bad.ratio, bad.measured, bad.dropped) == (None, None, "others")


@pytest.mark.parametrize("tokens", [50, 1000, 20_000])
async def test_a_prompt_is_as_long_as_it_may_be_and_no_longer(tokens: int) -> None:
    """Counted by a tokenizer of three letters a token."""

    async def count(text: str) -> int:
        return len(text) // 3

    found = len((await prompt(tokens, "seed", count)).text) // 3
    assert tokens * 0.95 - 8 <= found <= tokens


async def test_no_two_prompts_share_their_blocks() -> None:
    """A prefix cache by block hashes finds nothing of one in the other."""

    async def nobody(_: str) -> None:
        return None

    one, other = (await prompt(2000, "a", nobody)).text, (await prompt(2000, "b", nobody)).text
    blocks = {one[at : at + 64] for at in range(0, len(one) - 64, 64)}
    assert not [at for at in range(0, len(other) - 64, 64) if other[at : at + 64] in blocks]


def test_pieces_count_by_what_they_hold() -> None:
    """A first piece of 200 letters and 50 of four after it: half of the tokens came in the second that was timed."""
    times = tuple(1.0 + number / 50 for number in range(51))
    rate = decode_rate([Trace(0.0, times, 100, 1000, weights=(200.0, *(4.0,) * 50))])
    assert rate == pytest.approx(50.0)


def test_a_common_time_of_a_few_pieces_is_no_measurement() -> None:
    """Two slow streams side by side for half a second hold two pieces or three: a third more or less by chance."""
    assert decode_rate([stream(0.0, 1.0, 5.0, 51), stream(0.0, 10.4, 5.0, 51)]) is None


@pytest.mark.parametrize("late", [0.0, 0.3])
def test_what_comes_at_one_time_was_made_before(late: float) -> None:
    """A buffer that is emptied at the end, and once on the way."""
    times = (1.0, *((2.0 - late,) * 60), *((2.0,) * 195))
    assert decode_rate([Trace(0.0, times, 256, 1000)]) is None


@pytest.mark.parametrize(
    ("point", "trace", "why"),
    [
        (Point("decode", 1, 1000, 1000, 256), Trace(0.0, (1.0, 2.0), 256, None), "nobody says how long"),
        (Point("prefill", 1, None, 512, 4), Trace(0.0, (1.0, 2.0), 4, None), "nobody says how long"),
        (Point("prefill", 1, 32_768, 32_768, 4), Trace(0.0, (1.0, 2.0), 4, 24_000), "24,000 tokens long"),
        (Point("decode", 1, 32_768, 32_768, 256), Trace(0.0, (1.0, 2.0), 256, 40_000), "40,000 tokens long"),
        (Point("decode", 1, None, 512, 256), Trace(0.0, (1.0, 2.0), 7, 512), "after 7 of 256"),
        (Point("prefill", 1, 1000, 1000, 4), Trace(0.0, (1.0, 2.0), 4, 1000, cached=800), "a cache gave 800"),
        (Point("decode", 1, None, 512, 256), Trace(0.0, (1.0, 2.0), 256, None), ""),
        (Point("decode", 1, 1000, 1000, 256), Trace(0.0, (1.0, 2.0), 256, 1060), ""),
        (Point("prefill", 1, 1000, 1000, 4), Trace(0.0, (1.0, 2.0), 1, 990), ""),
    ],
)
def test_a_request_that_is_about_something_else_has_a_doubt(point: Point, trace: Trace, why: str) -> None:
    found = doubt(trace, point)
    assert (why in found) if why else not found


def test_a_ratio_that_is_no_number_is_none() -> None:
    point = Point("decode", 1, None, 512, 256, {"decode_tok_s": 5e-324})
    (row,) = rows_of((Measured(point, {"decode_tok_s": Figure(60.0, 60.0, 60.0, 1)}),))
    assert row.ratio is None
