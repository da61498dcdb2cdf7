"""The windows: from claims, flags and measurements, each with its arithmetic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.engines.model import EngineKind, EngineLaunch
from agent.errors import InvalidInput
from agent.plan.model import Claim
from agent.plan.windows import Given, derive


def claim(metric: str, value: float, context: int | None, concurrency: int | None = 1, origin: str = "perf") -> Claim:
    return Claim(metric, value, concurrency, context, (concurrency or 1) > 1, origin)


def vllm(**said) -> EngineLaunch:
    return EngineLaunch(EngineKind.VLLM, **said)


PP4 = vllm(max_model_len=524288, chunk_tokens=8192, ready_timeout_s=3600.0)
PP4_CLAIMS = [
    claim("ttft_ms", 129000, 524288),
    claim("prefill_tok_s", 4061, 524288),
    claim("prefill_tok_s", 2771, 32768),
    claim("decode_tok_s", 54.7, 524288),
    claim("decode_tok_s", 252.1, 1, 24),
]


def test_the_windows_of_the_pp4_recipe():
    watch = derive(PP4, PP4_CLAIMS, {"start_expected": Given(450.0, "profile")})
    seconds = {key: span.seconds for key, span in watch.spans().items()}
    assert seconds["stall"] == 180.0
    assert seconds["stall_blind"] == 447.0
    assert seconds["canary_timeout"] == 194.0
    assert (seconds["start_expected"], seconds["start_alert"], seconds["start_limit"]) == (450.0, 900.0, 3600.0)
    assert watch.derived
    assert not watch.warnings, "129 s and 524,288 / 4,061 tok/s are one measurement, rounded"


def test_the_windows_of_the_published_documents(shared: Path):
    """The claim that all rests on stands in `performance[].metrics` alone, JSON inside a string."""
    slug = "deepseek-v4-1-flash-764b-on-4x-cmp-170hx-pp4-shadow-kv-exl3-2bpw"
    document = json.loads((shared / f"recipes/{slug}.json").read_text())
    points = json.loads(document["performance"][0]["metrics"])["points"]
    claims = [
        claim(metric, point[metric], point["context_len"], point["concurrency"], "performance[0].metrics")
        for point in points
        for metric in ("decode_tok_s", "prefill_tok_s", "ttft_ms")
        if point.get(metric)
    ]
    watch = derive(PP4, claims, {})
    assert (watch.stall.seconds, watch.stall_blind.seconds) == (180.0, 447.0)
    assert "performance[0].metrics" in watch.stall_blind.how


def test_of_two_claims_that_contradict_each_other_the_longer_holds_with_a_warning():
    claims = [claim("ttft_ms", 10700, 65536, origin="a"), claim("prefill_tok_s", 4506.8, 65536, origin="b")]
    watch = derive(vllm(max_model_len=65536), claims, {})
    assert watch.stall_blind.seconds == 180.0
    assert "14.54 s" in watch.stall_blind.how
    (warning,) = watch.warnings
    assert "10.7 s (a)" in warning
    assert "14.54 s (b)" in warning


def test_a_context_beyond_every_claim_stretches_the_blind_window():
    """16 times the tested prompt: at most three times the linear time, 698 s; four minutes of prefill stay healthy."""
    claims = [claim("prefill_tok_s", 4506.8, 65536), claim("prefill_tok_s", 4037, 16384)]
    watch = derive(vllm(max_model_len=1048576), claims, {})
    assert watch.stall_blind.seconds == 2154.0
    assert watch.canary_timeout.seconds == 300.0


def test_a_little_beyond_the_tested_prompt_the_quadratic_bound_is_the_lower():
    watch = derive(vllm(max_model_len=200_000), [claim("ttft_ms", 100_000, 100_000)], {})
    assert watch.stall_blind.seconds == 3 * 400 + 60


@pytest.mark.parametrize(
    ("chunk", "seconds"),
    [(8192, 180.0), (16384, 242.0), (2048, 180.0), (None, 242.0)],
)
def test_the_stall_window_grows_with_the_chunk(chunk, seconds):
    watch = derive(vllm(max_model_len=524288, chunk_tokens=chunk), PP4_CLAIMS, {})
    assert watch.stall.seconds == seconds


@pytest.mark.parametrize(
    "claims",
    [
        [],
        [claim("decode_tok_s", 50, 4096)],
        [claim("ttft_ms", 0, 4096)],
        [claim("ttft_ms", 100, None)],
        [claim("ttft_ms", 100, 1)],
        [claim("prefill_tok_s", float("nan"), 4096)],
        [claim("prefill_tok_s", 9000, 4096, concurrency=8)],
    ],
)
def test_nothing_is_derived_from_what_is_unknown(claims):
    watch = derive(vllm(), claims, {})
    assert (watch.stall.seconds, watch.stall_blind.seconds, watch.derived) == (None, None, False)
    assert watch.stall.value == float("inf")
    assert "nothing is restarted" in watch.warnings[0]


def test_what_was_measured_here_replaces_every_claim():
    watch = derive(PP4, PP4_CLAIMS, {}, {"prefill_s": 200.0, "prefill_tokens": 524288.0, "start_s": 510.0})
    assert watch.stall_blind.seconds == 660.0
    assert "measured here" in watch.stall_blind.how
    assert (watch.start_expected.seconds, watch.start_alert.seconds) == (510.0, 1020.0)


@pytest.mark.parametrize("tokens", [200.0, 30_000.0])
def test_a_short_measured_prompt_replaces_no_claim_of_a_long_one(tokens: float):
    watch = derive(PP4, PP4_CLAIMS, {}, {"prefill_s": 1.0, "prefill_tokens": tokens})
    assert watch.stall_blind.seconds == 447.0


def test_without_a_claim_a_measured_prompt_is_enough_to_act_on():
    watch = derive(vllm(max_model_len=131_072), [], {}, {"prefill_s": 4.0, "prefill_tokens": 16_384.0})
    assert watch.derived
    assert watch.stall_blind.seconds == 3 * 96 + 60


def test_every_window_can_be_set_and_says_by_whom():
    watch = derive(PP4, PP4_CLAIMS, {key: Given(7.0, "site profile") for key in derive(PP4, [], {}).spans()})
    assert {span.seconds for span in watch.spans().values()} == {7.0}
    assert all("site profile" in span.how for span in watch.spans().values())


def test_a_window_set_by_a_person_counts_as_derived():
    watch = derive(None, [], {"stall": 20.0})
    assert watch.derived
    assert (watch.stall.seconds, watch.stall_blind.seconds) == (20.0, None)
    assert not watch.warnings


def test_budget_and_backoff_can_be_set():
    watch = derive(None, [], {"budget": 5, "backoff": [1, 2]})
    assert (watch.budget, watch.backoff) == (5, (1.0, 2.0))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"stal": 5.0}, "no such window"),
        ({"stall": -1.0}, "zero or more"),
        ({"stall": float("nan")}, "finite"),
        ({"stall": "ten"}, "number of seconds"),
        ({"stall": True}, "number of seconds"),
        ({"period": 0.0}, "above zero"),
        ({"period": None}, "above zero"),
        ({"backoff": 5.0}, "list of seconds"),
        ({"backoff": []}, "one at least"),
        ({"budget": 1.5}, "whole number"),
        ({"budget": None}, "whole number"),
    ],
)
def test_what_cannot_be_a_window_is_refused(overrides, words):
    with pytest.raises(InvalidInput) as caught:
        derive(None, [], overrides)
    assert words in f"{caught.value.text} {caught.value.advice}"


def test_llamacpp_is_never_scraped_faster_than_every_two_seconds():
    watch = derive(EngineLaunch(EngineKind.LLAMACPP), [], {"period": 0.5})
    assert watch.period.seconds == 2.0
    assert "0.5" in watch.period.how
    assert derive(vllm(), [], {"period": 0.5}).period.seconds == 0.5


def test_slow_sampling_stretches_the_windows_that_count_samples():
    watch = derive(PP4, PP4_CLAIMS, {"period": 30.0})
    assert (watch.zombie.seconds, watch.refused.seconds, watch.unobservable.seconds) == (150.0, 90.0, 360.0)


def test_the_plan_shows_seconds_and_arithmetic_for_every_window():
    shown = derive(PP4, PP4_CLAIMS, {}).to_json()
    assert all({"seconds", "how"} <= entry.keys() and entry["how"] for entry in shown.values())
    assert shown["stall_blind"]["seconds"] == 447.0
    assert json.loads(json.dumps(shown)) == shown
