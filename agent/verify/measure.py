"""Measure points one after the other, with the discipline that honest numbers need."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.engines.dialect import Dialect
from agent.engines.model import EngineLaunch, EngineReading, Request
from agent.samples.model import Missed
from agent.samples.port import Endpoint, Probe
from agent.verify.compare import Measured
from agent.verify.plausible import Limits
from agent.verify.points import Point
from agent.verify.port import Streams
from agent.verify.prompt import prompt
from agent.verify.trace import LEAST_DECODE_S, Figure, Trace, decode_rate, figure, prefill_rate

WARM_UPS = 2
WARM_TOKENS = 64
ATTEMPTS = 3
QUIET_S = 30.0
LOOK_S = 1.0
LEAST_TIMEOUT_S = 120.0
TOO_SHORT = f"the requests did not decode side by side for {LEAST_DECODE_S} s: too short to be timed"
SLOWEST_TOK_S = 0.5
SLOWEST_PREFILL_TOK_S = 50.0

Say = Callable[[Mapping[str, Any]], None]


class Foreign(Exception):
    """Somebody else's requests ran beside the measured ones."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured and by what means."""

    probe: Probe
    streams: Streams
    endpoint: Endpoint
    engine: EngineLaunch
    dialect: Dialect
    limits: Limits
    repeats: int
    say: Say


async def measure(bench: Bench, points: Sequence[Point]) -> tuple[Measured, ...]:
    """All points. Two warm-up rounds first: kernels are compiled and clocks raised by the first requests."""
    await warm_up(bench, points)
    done: list[Measured] = []
    for number, point in enumerate(points):
        bench.say({"text": f"{point.name} ({number + 1} of {len(points)})", "ratio": number / max(1, len(points))})
        done.append(await one_point(bench, point))
    return tuple(done)


async def warm_up(bench: Bench, points: Sequence[Point]) -> None:
    for number in range(WARM_UPS if points else 0):
        bench.say({"text": f"warms up ({number + 1} of {WARM_UPS})", "ratio": None})
        together = max(point.concurrency for point in points)
        await together_at(bench, Point("decode", together, None, WARM_TOKENS, WARM_TOKENS))


async def one_point(bench: Bench, point: Point) -> Measured:
    """The medians of the repeats; dropped where others were served, where it failed, or where it cannot be true."""
    found: dict[str, list[float]] = {}
    for _ in range(bench.repeats):
        try:
            traces = await undisturbed(bench, point)
        except Foreign as other:
            return Measured(point, dropped=str(other))
        if failed := next((trace.error for trace in traces if trace.error), ""):
            return Measured(point, dropped=failed)
        for metric, value in values(point, traces).items():
            if (why := bench.limits.rejects(metric, value, point.concurrency)) is not None:
                return Measured(point, dropped=why)
            found.setdefault(metric, []).append(value)
    figures: dict[str, Figure] = {metric: figure(numbers) for metric, numbers in found.items()}
    return Measured(point, figures, "" if figures else TOO_SHORT)


def values(point: Point, traces: Sequence[Trace]) -> dict[str, float]:
    """The figures of one repeat: decode apart from the time to the first token."""
    if point.kind == "decode":
        rate = decode_rate(traces)
        return {} if rate is None else {"decode_tok_s": rate}
    first = traces[0]
    rate = prefill_rate(first)
    found = {"ttft_ms": first.ttft * 1000}
    return found if rate is None else found | {"prefill_tok_s": rate}


async def undisturbed(bench: Bench, point: Point) -> list[Trace]:
    """The requests of one repeat, tried again where somebody else came in between."""
    for _ in range(ATTEMPTS):
        if not await quiet(bench):
            raise Foreign("others are served: the engine was not idle for a moment within 30 s")
        traces, most = await watched(bench, point)
        if most is None or most <= point.concurrency:
            return traces
    raise Foreign(f"others were served meanwhile, {ATTEMPTS} times in a row")


async def quiet(bench: Bench) -> bool:
    """Whether nothing runs, waiting for it for a while; an engine that does not say is taken as it is."""
    for _ in range(int(QUIET_S / LOOK_S)):
        running = await requests_in(bench)
        if not running:
            return True
        await asyncio.sleep(max(LOOK_S, bench.dialect.traits.min_period))
    return False


async def watched(bench: Bench, point: Point) -> tuple[list[Trace], float | None]:
    """The traces, and the most requests that the engine counted while they ran (None: it does not say)."""
    work = asyncio.ensure_future(together_at(bench, point))
    most: float | None = None
    try:
        while not work.done():
            await asyncio.wait({work}, timeout=max(LOOK_S, bench.dialect.traits.min_period))
            if not work.done() and (running := await requests_in(bench)) is not None:
                most = max(most or 0.0, running)
        return await work, most
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def requests_in(bench: Bench) -> float | None:
    """Requests in the engine now, by its own count over all ranks."""
    if bench.engine.metrics is None:
        return None
    text = await bench.probe.metrics(bench.endpoint, bench.engine.metrics, 5.0)
    if isinstance(text, Missed):
        return None
    reading: EngineReading = bench.dialect.read_metrics(text)
    counts = [rank.work for rank in reading.ranks if rank.work is not None]
    return sum(counts) if counts else None


async def together_at(bench: Bench, point: Point) -> list[Trace]:
    """The point's requests, all at once, each with text of its own."""
    texts = [
        await prompt(point.prompt_tokens, secrets.token_hex(8), lambda text: count(bench, text))
        for _ in range(point.concurrency)
    ]
    timeout = LEAST_TIMEOUT_S + point.max_tokens * point.concurrency / SLOWEST_TOK_S
    timeout += point.prompt_tokens * point.concurrency / SLOWEST_PREFILL_TOK_S
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(bench.streams.trace(bench.endpoint, ask(bench.engine, text, point), timeout))
            for text in texts
        ]
    return [task.result() for task in tasks]


def ask(engine: EngineLaunch, text: str, point: Point) -> Request:
    """Temperature 0, streamed, to the last token asked for."""
    named = {} if engine.served_model is None else {"model": engine.served_model}
    body = {"prompt": text, "max_tokens": point.max_tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    return Request("/v1/completions", "POST", {**named, **body, "stream_options": {"include_usage": True}})


async def count(bench: Bench, text: str) -> int | None:
    """By the engine's own tokenizer (vLLM, SGLang: `prompt` → `count`; llama.cpp: `content` → `tokens`)."""
    named = {} if bench.engine.served_model is None else {"model": bench.engine.served_model}
    answer = await bench.probe.ask(
        bench.endpoint, Request("/tokenize", "POST", {**named, "prompt": text, "content": text}), 30.0
    )
    if isinstance(answer, Missed) or answer.status != 200:
        return None
    return tokens_in(answer.text)


def tokens_in(text: str) -> int | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    if isinstance(found.get("count"), int):
        return int(found["count"])
    tokens = found.get("tokens")
    return len(tokens) if isinstance(tokens, list) else None
