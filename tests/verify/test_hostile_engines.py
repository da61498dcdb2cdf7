"""Whole measurements of an engine that miscounts, hides or serves others: a right number, or none and why."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent.adapters.http_probe import HttpProbe
from agent.adapters.http_stream import HttpStreams
from agent.engines.model import EngineKind, EngineLaunch
from agent.engines.registry import dialect_of
from agent.samples.port import Endpoint
from agent.verify.compare import Measured
from agent.verify.measure import Bench, NotMeasurable, measure
from agent.verify.plausible import Limits
from agent.verify.points import Point
from tests.verify.hostile import (
    DONE,
    HEAD,
    LETTERS,
    Hostile,
    answer,
    counting,
    honest,
    piece,
    served,
    tokens_of,
    usage,
)  # fmt: skip

pytestmark = pytest.mark.timeout(60)

PREFILL = Point("prefill", 1, 4000, 4000, 4, {"prefill_tok_s": 20_000.0})
WARM = 8
DECODE = Point("decode", 1, 1000, 1000, 60, {"decode_tok_s": 200.0})


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds where a real engine is given half a minute."""
    for name, seconds in (("QUIET_S", 1.0), ("SETTLE_S", 0.6), ("LOOK_S", 0.1)):
        monkeypatch.setattr(f"agent.verify.measure.{name}", seconds)
    monkeypatch.setattr("agent.verify.ruler.TOKENIZER_S", 0.5)
    monkeypatch.setattr("agent.verify.measure.WARM_TOKENS", WARM)


@asynccontextmanager
async def bench_of(
    engine: Hostile, metrics: str | None = "/metrics", kind: EngineKind = EngineKind.VLLM
) -> AsyncIterator[Bench]:
    probe, streams = HttpProbe(), HttpStreams()
    async with served(engine):
        launch = EngineLaunch(kind, port=engine.port, metrics=metrics)
        at = Endpoint("127.0.0.1", engine.port)
        dialect = dialect_of(kind)
        try:
            yield Bench(probe, streams, at, launch, dialect, Limits(None, None), 1, lambda _: None, "seed")
        finally:
            await streams.close()
            await probe.close()


async def measured(
    engine: Hostile, *points: Point, metrics: str | None = "/metrics", kind: EngineKind = EngineKind.VLLM
) -> tuple[Measured, ...]:
    async with bench_of(engine, metrics, kind) as bench:
        return await measure(bench, points)


async def test_an_honest_one_is_measured_right() -> None:
    engine = Hostile()
    decode, prefill = await measured(engine, DECODE, PREFILL)
    assert (decode.dropped, prefill.dropped) == ("", "")
    assert decode.figures["decode_tok_s"].value == pytest.approx(engine.gave(DECODE.max_tokens), rel=0.25)
    assert decode.figures["decode_tok_s"].value <= 205.0
    gave = PREFILL.prompt_tokens / engine.began_after(PREFILL.max_tokens)
    assert 0.4 * gave <= prefill.figures["prefill_tok_s"].value <= 20_500.0
    assert decode.watched
    assert prefill.watched


# -- tokenizers ----------------------------------------------------------------------------------------------------


async def missing(_: str) -> bytes:
    return answer("404 Not Found", b"{}")


async def slow(_: str) -> bytes:
    await asyncio.sleep(5)
    return b""


def counts(value: Any) -> Any:
    async def tokenizer(_: str) -> bytes:
        return answer("200 OK", json.dumps({"count": value}).encode())

    return tokenizer


async def twice(text: str) -> bytes:
    return answer("200 OK", json.dumps({"count": 2 * tokens_of(text)}).encode())


async def rubbish(_: str) -> bytes:
    return answer("200 OK", b"[" * 50_000)


async def cut_off(_: str) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"


@pytest.mark.parametrize(
    "tokenizer",
    [missing, slow, rubbish, cut_off, counts(0), counts(1), counts(-5), counts(True), counts(10**300), counts("many")],
    ids=["none", "slow", "rubbish", "cut off", "zero", "one", "negative", "switch", "huge", "words"],
)
async def test_without_a_tokenizer_prompts_are_as_long_as_claimed(tokenizer: Any) -> None:
    """By what the engine says of the prompts it was sent; nobody waits for a tokenizer prompt after prompt."""
    began = time.monotonic()
    engine = Hostile(tokenizer=tokenizer)
    decode, prefill = await measured(engine, DECODE, PREFILL)
    assert (decode.dropped, prefill.dropped) == ("", "")
    lengths = [tokens_of(body["prompt"]) for body in engine.bodies if body["max_tokens"] == PREFILL.max_tokens]
    assert lengths
    assert all(0.9 * PREFILL.prompt_tokens <= length <= PREFILL.prompt_tokens for length in lengths)
    assert time.monotonic() - began < 20.0


async def test_a_trial_whose_only_token_shows_no_text_still_counts_its_prompt() -> None:
    """A token may be half a letter, or a mark of which nothing is shown; a byte a token is the finest tokenizer."""

    async def bytewise(engine: Hostile, asked: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
        out.write(HEAD)
        engine.read += (read := len(str(asked["prompt"])))
        most = int(asked["max_tokens"])
        for number in range(most):
            await asyncio.sleep(1 / engine.pace)
            engine.made += 1
            out.write(piece("" if most == 1 else " word", "length" if number == most - 1 else None))
        out.write(usage(read, most) + DONE)

    engine = Hostile(bytewise, missing)
    (found,) = await measured(engine, DECODE)
    assert found.dropped == ""
    assert 900 <= len(engine.bodies[-1]["prompt"]) <= 1000


async def test_a_tokenizer_that_counts_otherwise_than_the_engine_has_no_number() -> None:
    """It makes prompts half as long as claimed, and half a prompt is read in half the time."""
    decode, prefill = await measured(Hostile(tokenizer=twice), DECODE, PREFILL)
    for one in (decode, prefill):
        assert one.figures == {}
        assert "were meant" in one.dropped


async def uncounted(engine: Hostile, asked: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
    """As honest as any, without counts."""
    out.write(HEAD)
    engine.read += tokens_of(str(asked["prompt"]))
    times = engine.begin()
    for number in range(most := int(asked["max_tokens"])):
        await asyncio.sleep(1 / engine.pace)
        engine.made += 1
        times.append(time.monotonic())
        out.write(piece(" word", "length" if number == most - 1 else None))
    out.write(DONE)


async def test_an_engine_that_counts_nothing_is_measured_by_its_tokenizer_alone() -> None:
    engine = Hostile(uncounted)
    (found,) = await measured(engine, DECODE)
    assert found.dropped == ""
    assert found.figures["decode_tok_s"].value == pytest.approx(engine.gave(DECODE.max_tokens), rel=0.25)
    assert found.figures["decode_tok_s"].value <= 205.0


async def test_prompts_that_nobody_counts_are_of_no_context() -> None:
    """Neither tokenizer nor counts: the claim is about a context, and nobody knows which this was."""
    decode, filler = await measured(Hostile(uncounted, missing), DECODE, Point("decode", 1, None, 512, 60))
    assert "nobody says how long" in decode.dropped
    assert filler.dropped == ""


# -- counts and ends -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (counting(prompt=3.0), "were meant"),
        (counting(prompt=0.2), "were meant|engine counted"),
        (counting(made=3.0), "were asked for"),
        (counting(made=0.2), "pieces of text"),
        (counting(prompt_tokens_details={"cached_tokens": 3900}), "a cache gave 3,900"),
    ],
    ids=["longer prompts", "shorter prompts", "more tokens", "fewer tokens", "cached"],
)
async def test_counts_that_contradict_what_was_sent_are_no_measurement(script: Any, why: str) -> None:
    async def only_prefill(engine: Hostile, asked: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
        """Its lies begin after the warm-up, which ends a verification where nothing is answered."""
        await (script if asked["max_tokens"] == PREFILL.max_tokens else honest)(engine, asked, out)

    (found,) = await measured(Hostile(only_prefill), PREFILL)
    assert found.figures == {}
    assert re.search(why, found.dropped), found.dropped


async def test_an_answer_that_ends_at_once_has_no_pace() -> None:
    async def brief(engine: Hostile, asked: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
        if asked["max_tokens"] != DECODE.max_tokens:
            await honest(engine, asked, out)
            return
        out.write(HEAD)
        for number in range(8):
            await asyncio.sleep(0.05)
            out.write(piece(" word", "stop" if number == 7 else None))
        out.write(usage(tokens_of(str(asked["prompt"])), 8) + DONE)

    (found,) = await measured(Hostile(brief), DECODE)
    assert "ended after 8 of 60 tokens" in found.dropped


async def test_what_answers_no_request_is_told_once_and_not_point_by_point() -> None:
    """A chat-only server, a wrong key: every point would fail in the same way."""

    async def refuses(_: Hostile, __: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
        out.write(answer("401 Unauthorized", b'{"error": "no key"}'))

    engine = Hostile(refuses)
    with pytest.raises(NotMeasurable, match="answered 401"):
        await measured(engine, *(Point("decode", 1, 1000 + number, 1000, 60) for number in range(50)))
    assert len(engine.bodies) == 2


async def test_one_refusal_in_company_is_the_point_s_own() -> None:
    """429 beyond three at a time: four together are dropped, one alone is measured."""

    async def narrow(engine: Hostile, asked: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
        if engine.running > 3:
            out.write(answer("429 Too Many Requests", b"busy"))
        else:
            await honest(engine, asked, out)

    alone, together = await measured(Hostile(narrow), DECODE, Point("decode", 4, None, 512, 60))
    assert alone.dropped == ""
    assert "answered 429" in together.dropped


# -- others --------------------------------------------------------------------------------------------------------


async def test_others_between_two_looks_are_seen_by_the_counters() -> None:
    """Requests of a few milliseconds are never running when somebody looks."""

    async def shared(engine: Hostile, asked: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
        engine.made += 100
        await honest(engine, asked, out)

    (found,) = await measured(Hostile(shared), PREFILL)
    assert found.figures == {}
    assert "others were served" in found.dropped
    assert "engine counted" in found.dropped


async def test_others_that_go_away_cost_an_attempt_and_no_point() -> None:
    engine = Hostile()

    async def once(made: Hostile, asked: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
        if asked["max_tokens"] == DECODE.max_tokens and sum(b["max_tokens"] == 60 for b in made.bodies) == 1:
            made.made += 5000
        await honest(made, asked, out)

    engine.script = once
    (found,) = await measured(engine, DECODE)
    assert found.dropped == ""
    assert sum(body["max_tokens"] == DECODE.max_tokens for body in engine.bodies) == 2


async def test_others_that_run_on_afterwards_are_seen() -> None:
    async def joined(engine: Hostile, asked: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
        await honest(engine, asked, out)
        engine.foreign = 1 if asked["max_tokens"] == PREFILL.max_tokens else 0

    (found,) = await measured(Hostile(joined), PREFILL)
    assert found.figures == {}
    assert "others" in found.dropped


def broken() -> bytes:
    return b"<html>"


async def test_an_engine_that_cannot_be_seen_is_not_taken_for_idle() -> None:
    """Its metrics are there, and say nothing that can be read."""
    (found,) = await measured(Hostile(metrics=broken), PREFILL)
    assert found.figures == {}
    assert "could not be seen" in found.dropped


async def test_an_engine_without_metrics_is_measured_and_that_is_said() -> None:
    (found,) = await measured(Hostile(), PREFILL, metrics=None)
    assert found.figures
    assert not found.watched


async def test_a_gauge_that_shows_the_last_step_is_no_other_client() -> None:
    """SGLang writes its gauges every 40 steps and, idle, every half minute: they still show the measured request."""
    engine, ended = Hostile(), 0.0

    async def script(made: Hostile, asked: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
        nonlocal ended
        await honest(made, asked, out)
        ended = time.monotonic()

    def late() -> bytes:
        shown = 1 if engine.running or time.monotonic() - ended < 0.9 else 0
        lines = (
            f'sglang:num_running_reqs{{tp_rank="0"}} {shown}',
            'sglang:num_queue_reqs{tp_rank="0"} 0',
            f"sglang:prompt_tokens_total {engine.read}",
            f"sglang:generation_tokens_total {engine.made}",
        )
        return "\n".join((*lines, "")).encode()

    engine.script, engine.metrics = script, late
    (found,) = await measured(engine, PREFILL, kind=EngineKind.SGLANG)
    assert found.dropped == ""
    assert found.watched
    others = engine.made

    async def shared(made: Hostile, asked: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
        made.made += 100
        await script(made, asked, out)

    engine.script = shared
    (found,) = await measured(engine, PREFILL, kind=EngineKind.SGLANG)
    assert engine.made > others
    assert "others were served" in found.dropped


async def test_metrics_that_are_gone_when_they_are_read_are_left_to_the_agent() -> None:
    """TensorRT-LLM's: the agent would miss the steps that a measurement took away, and see a stall."""
    engine = Hostile()
    (found,) = await measured(engine, PREFILL, kind=EngineKind.TRTLLM)
    assert found.figures
    assert not found.watched
    assert "/metrics" not in {path for path, _ in engine.asked}


# -- the end -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["tokenizing", "warming up", "measuring", "learning"])
async def test_cancelled_at_any_moment_nothing_runs_on(moment: str) -> None:
    reached = asyncio.Event()

    async def stuck(engine: Hostile, asked: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
        tokens = asked["max_tokens"]
        if {1: "learning", WARM: "warming up"}.get(tokens, "measuring") == moment:
            out.write(HEAD + piece(" word"))
            reached.set()
            await asyncio.sleep(50)
        await honest(engine, asked, out)

    async def holds(text: str) -> bytes:
        if moment == "learning":
            return await missing(text)
        if moment == "tokenizing":
            reached.set()
            await asyncio.sleep(50)
        return answer("200 OK", json.dumps({"count": len(text) // LETTERS}).encode())

    engine = Hostile(stuck, holds)
    async with bench_of(engine) as bench:
        task = asyncio.ensure_future(measure(bench, [Point("decode", 3, None, 100, 60)]))
        async with asyncio.timeout(20):
            await reached.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            while engine.running:
                await asyncio.sleep(0.02)
    assert task.cancelled()


async def test_a_long_prompt_is_written_without_keeping_others_waiting() -> None:
    """Half a million tokens; the loop that looks at engines turns meanwhile."""
    longest, last = 0.0, time.monotonic()

    async def turns() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()

    from agent.verify.prompt import Scale, prompt
    from agent.verify.ruler import aside

    async def nobody(_: str) -> None:
        return None

    beat = asyncio.ensure_future(turns())
    began = time.monotonic()
    made = await prompt(500_000, "seed", nobody, Scale(), aside)
    took = time.monotonic() - began
    beat.cancel()
    await asyncio.gather(beat, return_exceptions=True)
    assert len(made.text) > 500_000
    assert longest < took
