"""Measure points one after the other, with the discipline that honest numbers need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from agent.engines.dialect import Dialect
from agent.engines.model import EngineLaunch, Request
from agent.errors import AgentError
from agent.samples.model import Miss, Missed
from agent.samples.port import Endpoint, Probe
from agent.verify.ask import completion
from agent.verify.books import Seen, others, own, seen, settled
from agent.verify.compare import Measured
from agent.verify.plausible import Limits
from agent.verify.points import Point
from agent.verify.port import Streams
from agent.verify.prompt import Prompt
from agent.verify.ruler import Ruler
from agent.verify.trace import LEAST_DECODE_S, Figure, Trace, decode_rate, doubt, figure, prefill_rate

WARM_UPS = 2
WARM_TOKENS = 64
ATTEMPTS = 3
QUIET_S = 30.0
SETTLE_S = 3.0
LOOK_S = 1.0
METRICS_S = 5.0
REFUSED = frozenset({401, 403, 404, 501})
"""Statuses of a server that shows no metrics, now or ever (llama.cpp without `--metrics`: 501)."""
LEAST_TIMEOUT_S = 120.0
TOO_SHORT = f"the requests did not decode side by side, piece by piece, for {LEAST_DECODE_S} s: it cannot be timed"
SLOWEST_TOK_S = 0.5
SLOWEST_PREFILL_TOK_S = 50.0

Say = Callable[[Mapping[str, Any]], None]


class Foreign(Exception):
    """Somebody else's requests ran beside the measured ones."""


class NotMeasurable(AgentError):
    """The engine answered no request of a warm-up: no point will be answered either."""

    code = "measure.failed"
    message = "its requests are not answered: {why}"


class GaveWay(Exception):
    """Somebody began to use the engine while it was measured for nobody in particular. `why` in words."""

    @property
    def why(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured and by what means; `seed` makes the same prompts again."""

    probe: Probe
    streams: Streams
    endpoint: Endpoint
    engine: EngineLaunch
    dialect: Dialect
    limits: Limits
    repeats: int
    say: Say
    seed: str
    yields: bool = False
    """Nobody waits for it: it ends as soon as others are served."""

    @property
    def look_s(self) -> float:
        return max(LOOK_S, self.dialect.traits.min_period)


async def measure(bench: Bench, points: Sequence[Point]) -> tuple[Measured, ...]:
    """All points. Two warm-up rounds first: kernels are compiled and clocks raised by the first requests.

    Raises NotMeasurable, and GaveWay.
    """
    ruler = Ruler(bench.probe, bench.streams, bench.endpoint, bench.engine, bench.seed)
    await warm_up(bench, ruler, points)
    done: list[Measured] = []
    for number, point in enumerate(points):
        bench.say({"text": f"{point.name} ({number + 1} of {len(points)})", "ratio": number / max(1, len(points))})
        done.append(await one_point(bench, ruler, point))
    return tuple(done)


async def warm_up(bench: Bench, ruler: Ruler, points: Sequence[Point]) -> None:
    for number in range(WARM_UPS if points else 0):
        bench.say({"text": f"warms up ({number + 1} of {WARM_UPS})", "ratio": None})
        if number == 0:
            await ruler.learn()
        most = max(point.concurrency for point in points)
        if await refused(bench, ruler, most) and (why := await refused(bench, ruler, 1)):
            raise NotMeasurable(why=why)


async def refused(bench: Bench, ruler: Ruler, together: int) -> str:
    """Warm so many requests up; why not one of them was answered."""
    warm = Point("decode", together, None, WARM_TOKENS, WARM_TOKENS)
    traces = await together_at(bench, warm, await prompts(ruler, warm))
    return traces[0].error if all(trace.error for trace in traces) else ""


async def one_point(bench: Bench, ruler: Ruler, point: Point) -> Measured:
    """The medians of the repeats; dropped where others were served, where it failed, or where it cannot be true."""
    found: dict[str, list[float]] = {}
    watched = True
    for _ in range(bench.repeats):
        try:
            traces, before = await undisturbed(bench, ruler, point)
        except Foreign as other:
            if bench.yields:
                raise GaveWay(str(other)) from other
            return Measured(point, dropped=str(other))
        watched = watched and before.work is not None
        if why := next(filter(None, (doubt(trace, point) for trace in traces)), ""):
            return Measured(point, dropped=why)
        for metric, value in values(point, traces).items():
            if unlikely := bench.limits.rejects(metric, value, point.concurrency):
                return Measured(point, dropped=unlikely)
            found.setdefault(metric, []).append(value)
    figures: dict[str, Figure] = {metric: figure(numbers) for metric, numbers in found.items()}
    return Measured(point, figures, "" if figures else TOO_SHORT, watched)


def values(point: Point, traces: Sequence[Trace]) -> dict[str, float]:
    """The figures of one repeat: decode apart from the time to the first token.

    Of several prompts at once each waits for others: the middle one stands for them, neither the first nor the last.
    """
    if point.kind == "decode":
        rate = decode_rate(traces)
        return {} if rate is None else {"decode_tok_s": rate}
    rates = [rate for trace in traces if (rate := prefill_rate(trace)) is not None]
    if len(rates) < len(traces):
        return {}
    return {"ttft_ms": median(trace.ttft for trace in traces) * 1000, "prefill_tok_s": median(rates)}


async def undisturbed(bench: Bench, ruler: Ruler, point: Point) -> tuple[list[Trace], Seen]:
    """The requests of one repeat, tried again where somebody else came in between, and the look before them."""
    why = ""
    for _ in range(ATTEMPTS):
        texts = await prompts(ruler, point)
        before = await quiet(bench)
        traces, most = await watched_at(bench, point, texts)
        if any(trace.error for trace in traces):
            return traces, before
        why = f"{most:g} requests ran at once" if most is not None and most > point.concurrency else ""
        why = why or await beside(bench, before, own(traces, point.prompt_tokens))
        if not why:
            return traces, before
        if bench.yields:
            raise Foreign(f"others are served: {why}")
    raise Foreign(f"others were served meanwhile, {ATTEMPTS} times in a row: {why}")


async def quiet(bench: Bench) -> Seen:
    """A look in which nothing runs, waited for; an engine that does not say what it runs is taken as it is.

    Raises Foreign: what cannot be seen for a moment is not idle.
    """
    clock = asyncio.get_running_loop()
    patience = (SETTLE_S if bench.yields else QUIET_S) + bench.dialect.traits.gauge_lag
    until = clock.time() + patience
    while True:
        now = await look(bench)
        if isinstance(now, Seen) and not now.work:
            return now
        if clock.time() >= until:
            break
        await asyncio.sleep(bench.look_s)
    if isinstance(now, Missed):
        raise Foreign(f"whether others are served could not be seen for {patience:g} s: {now.why}")
    raise Foreign(f"others are served: the engine was not idle for a moment within {patience:g} s")


async def watched_at(bench: Bench, point: Point, texts: Sequence[Prompt]) -> tuple[list[Trace], float | None]:
    """The traces, and the most requests that the engine counted while they ran (None: it does not say)."""
    work = asyncio.ensure_future(together_at(bench, point, texts))
    most: float | None = None
    try:
        while not work.done():
            await asyncio.wait({work}, timeout=bench.look_s)
            if not work.done() and isinstance(now := await look(bench), Seen) and now.work is not None:
                most = max(most or 0.0, now.work)
                if bench.yields and now.work > point.concurrency:
                    raise Foreign(f"others are served: {now.work:g} requests ran at once")
        return await work, most
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def beside(bench: Bench, before: Seen, spent: Seen) -> str:
    """What the engine counted beyond the measured requests; requests that are over in a second are seen here alone."""
    if before == Seen():
        return ""
    clock, traits = asyncio.get_running_loop(), bench.dialect.traits
    until = clock.time() + SETTLE_S
    while True:
        await asyncio.sleep(max(LOOK_S / 4, traits.min_period))
        now = await look(bench)
        if traits.gauge_lag and isinstance(now, Seen):
            now = replace(now, work=None)  # what it shows is its last step, which was the measured requests' own
        if isinstance(now, Seen) and (settled(before, now, spent) or clock.time() >= until):
            return others(before, now, spent)
        if clock.time() >= until:
            return "whether others were served could not be seen afterwards"


async def look(bench: Bench) -> Seen | Missed:
    """The engine's own counts now; nothing of them where it has none. Missed: it has them, and they were not read."""
    if bench.engine.metrics is None or bench.dialect.traits.one_reader:
        return Seen()
    answer = await bench.probe.ask(bench.endpoint, Request(bench.engine.metrics), METRICS_S)
    if isinstance(answer, Missed):
        return answer
    if answer.status in REFUSED:
        return Seen()
    if answer.status != 200:
        return Missed(Miss.HTTP, f"{bench.engine.metrics} answered {answer.status}")
    try:
        return seen(bench.dialect.read_metrics(answer.text))
    except AgentError as error:
        return Missed(Miss.BROKEN, error.text)


async def prompts(ruler: Ruler, point: Point) -> list[Prompt]:
    """Text of its own for each of the point's requests."""
    return [await ruler.prompt(point.prompt_tokens) for _ in range(point.concurrency)]


async def together_at(bench: Bench, point: Point, texts: Sequence[Prompt]) -> list[Trace]:
    """The point's requests, all at once. A prompt's length is the engine's word, else its tokenizer's."""
    timeout = LEAST_TIMEOUT_S + point.max_tokens * point.concurrency / SLOWEST_TOK_S
    timeout += point.prompt_tokens * point.concurrency / SLOWEST_PREFILL_TOK_S
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                bench.streams.trace(bench.endpoint, completion(bench.engine, one.text, point.max_tokens), timeout)
            )
            for one in texts
        ]
    pairs = zip((task.result() for task in tasks), texts, strict=True)
    return [replace(trace, prompt_tokens=trace.prompt_tokens or one.tokens) for trace, one in pairs]
