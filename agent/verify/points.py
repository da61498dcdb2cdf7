"""Which points a recipe's claims name, and which of them this launch can reach (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from agent.engines.model import EngineLaunch
from agent.plan.model import Claim
from agent.quantity import counted

DECODE_TOKENS = 256
"""Tokens of an answer whose pace is measured: at 60 tok/s four seconds, at 5 tok/s fifty."""
PREFILL_TOKENS = 4
FILLER_PROMPT = 512
"""Prompt tokens where a claim states no context."""
QUICK_CONTEXT = 32_768
QUICK_CONCURRENCY = 8
MOST_TOGETHER = 512
"""Each request is a connection, and a service has 1024 open files unless its unit says otherwise."""
MOST_TOKENS = 32_000_000
"""Of all prompts of a point, which are kept in memory: 256 requests of 125,000."""
MOST_POINTS = 200
"""At a minute each, three hours."""
MOST_NAMED = 200
"""Points that are left out one by one; of more, the number."""


@dataclass(frozen=True, slots=True)
class Point:
    """One thing to measure. `claimed`: metric → value; `context` as claimed, None where it is not stated.

    `prompt_tokens` leaves room for the answer: the launch's context less `max_tokens` counts as the claimed context.
    """

    kind: str
    """`decode` or `prefill`."""
    concurrency: int
    context: int | None
    prompt_tokens: int
    max_tokens: int
    claimed: Mapping[str, float] = field(default_factory=dict)
    origins: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """`decode c8 @32768`: the label of `claim_ratio` and of the table."""
        where = f" @{self.context}" if self.context is not None else ""
        return f"{self.kind} c{self.concurrency}{where}"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A claim that is not measured here, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Reach:
    """What this launch can hold. None: not known, and nothing is left out for it."""

    max_model_len: int | None
    max_num_seqs: int | None
    kv_tokens: int | None


def reach_of(engine: EngineLaunch, kv_tokens: float | None) -> Reach:
    return Reach(engine.max_model_len, engine.max_num_seqs, int(kv_tokens) if kv_tokens else None)


def points_of(claims: Iterable[Claim], reach: Reach, *, quick: bool) -> tuple[tuple[Point, ...], tuple[LeftOut, ...]]:
    """Points in the order of their cost, and what is left out."""
    found, left = [], []
    for point in merged(claims):
        sized = fit(point, reach)
        why = beyond(sized, reach) or (too_long(sized) if quick else None)
        if why is None:
            found.append(sized)
        else:
            left.append(LeftOut(point.name, why))
    return tuple(sorted(found, key=lambda p: p.prompt_tokens * p.concurrency)), tuple(left)


def merged(claims: Iterable[Claim]) -> list[Point]:
    """One point for all claims of the same kind, concurrency and context; of several values the highest is held up."""
    table: dict[tuple[str, int, int | None], list[Claim]] = {}
    for claim in claims:
        kind = "decode" if claim.metric == "decode_tok_s" else "prefill"
        table.setdefault((kind, claim.concurrency or 1, claim.context), []).append(claim)
    return [point(key, group) for key, group in table.items()]


def point(key: tuple[str, int, int | None], claims: list[Claim]) -> Point:
    kind, concurrency, context = key
    claimed: dict[str, float] = {}
    for claim in claims:
        better = min if claim.metric == "ttft_ms" else max
        claimed[claim.metric] = better(claimed.get(claim.metric, claim.value), claim.value)
    return Point(
        kind=kind,
        concurrency=concurrency,
        context=context,
        prompt_tokens=context or FILLER_PROMPT,
        max_tokens=DECODE_TOKENS if kind == "decode" else PREFILL_TOKENS,
        claimed=claimed,
        origins=tuple(dict.fromkeys(claim.origin for claim in claims)),
        notes=tuple(dict.fromkeys(claim.note for claim in claims if claim.note)),
    )


def fit(point: Point, reach: Reach) -> Point:
    """With room for the answer in the launch's context."""
    if reach.max_model_len is None:
        return point
    return replace(point, prompt_tokens=max(1, min(point.prompt_tokens, reach.max_model_len - point.max_tokens)))


def beyond(point: Point, reach: Reach) -> str | None:
    """Why this launch cannot reach the point, or a measurement does not; None when it can."""
    if point.concurrency < 1 or (point.context is not None and point.context < 1):
        return "no request is like that"
    if point.concurrency > MOST_TOGETHER:
        return f"at most {MOST_TOGETHER:,} requests are sent at once"
    if point.concurrency * point.prompt_tokens > MOST_TOKENS:
        return f"its prompts have more than {MOST_TOKENS:,} tokens together"
    if reach.max_model_len is not None and reach.max_model_len <= point.max_tokens:
        return f"the launch's context of {reach.max_model_len:,} tokens has no room for {point.max_tokens} of an answer"
    if reach.max_model_len is not None and (point.context or 0) > reach.max_model_len:
        return f"the launch's context is {reach.max_model_len:,} tokens"
    if reach.max_num_seqs is not None and point.concurrency > reach.max_num_seqs:
        return f"the launch runs at most {counted(reach.max_num_seqs, 'request')} at once"
    need = point.concurrency * (point.prompt_tokens + point.max_tokens)
    if reach.kv_tokens is not None and need > reach.kv_tokens:
        return f"it needs {need:,} tokens of KV cache, and there are {reach.kv_tokens:,}"
    return None


def chosen(
    points: tuple[Point, ...], left: tuple[LeftOut, ...], only: tuple[str, ...]
) -> tuple[tuple[Point, ...], tuple[LeftOut, ...]]:
    """Points whose name has one of the words, all where no word is given; no more than a night can measure."""
    taken: list[Point] = []
    others = list(left)
    for point in points:
        if only and not any(word in point.name for word in only):
            others.append(LeftOut(point.name, "not asked for"))
        elif len(taken) >= MOST_POINTS:
            others.append(LeftOut(point.name, f"at most {MOST_POINTS} points are measured at once: ask for it by name"))
        else:
            taken.append(point)
    return tuple(taken), shortened(others)


def unknown_words(names: Iterable[str], only: Iterable[str]) -> list[str]:
    """Words that stand in no point's name: whoever asks for one means something that is not there."""
    there = list(names)
    return [word for word in only if not any(word in name for name in there)]


def shortened(left: list[LeftOut]) -> tuple[LeftOut, ...]:
    """By name as far as anybody reads."""
    if len(left) <= MOST_NAMED:
        return tuple(left)
    return (*left[:MOST_NAMED], LeftOut("others", f"{len(left) - MOST_NAMED:,} more points are left out"))


def too_long(point: Point) -> str | None:
    if point.prompt_tokens > QUICK_CONTEXT or point.concurrency > QUICK_CONCURRENCY:
        return f"--quick stays within {QUICK_CONTEXT:,} tokens and {QUICK_CONCURRENCY} requests"
    return None
