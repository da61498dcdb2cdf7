"""What one streamed answer showed, and what several together say (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from agent.verify.points import Point

LEAST_DECODE_S = 0.2
"""A reader that was kept from reading for 20 ms falsifies this by a tenth, and anything shorter by more."""
BURST_S = 0.02
BURST = 0.5
"""More than this share of what was timed within 20 ms was made before it was sent: a buffer's pace, not an engine's."""
LEAST_PIECES = 8
"""Of each of several requests: where their common time begins and ends, each is off by up to one piece."""


LEAST_ANSWER = 32
"""Tokens: the pace of a shorter answer is that of its first pieces."""
LENGTH_SLACK, LENGTH_OFF = 64, 0.1
"""Tokens and share by which a prompt may miss its length: what is asked around a short one, what a guess is off by."""
CACHED = 0.1


@dataclass(frozen=True, slots=True)
class Trace:
    """One request. Times are seconds of one monotonic clock; `pieces` when each piece of text came."""

    sent: float
    pieces: tuple[float, ...]
    tokens: int
    prompt_tokens: int | None
    error: str = ""
    weights: tuple[float, ...] = ()
    """How much of the answer each piece is (its letters); empty: all are alike."""
    cached: int = 0
    """Tokens of the prompt that a prefix cache gave."""

    @property
    def first(self) -> float:
        return self.pieces[0]

    @property
    def last(self) -> float:
        return self.pieces[-1]

    @property
    def ttft(self) -> float:
        """Seconds to the first token."""
        return self.first - self.sent

    def within(self, begin: float, end: float) -> list[tuple[float, float]]:
        """When pieces came after `begin` until `end`, and the tokens in each: its share of the answer's."""
        weights = self.weights or (1.0,) * len(self.pieces)
        whole = sum(weights)
        if whole <= 0:
            return []
        pairs = zip(self.pieces, weights, strict=True)
        return [(at, self.tokens * weight / whole) for at, weight in pairs if begin < at <= end]


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of the repeats, and how far they lie apart."""

    value: float
    low: float
    high: float
    repeats: int


def figure(values: Sequence[float]) -> Figure:
    return Figure(median(values), min(values), max(values), len(values))


def decode_rate(traces: Sequence[Trace]) -> float | None:
    """Tokens a second of all requests together, in the time in which every one of them was decoding.

    A piece may hold several tokens (speculative decoding), so each counts as its share of its request's tokens.
    None where the requests never decoded side by side for long enough, or came in bursts: pieces are timed where they
    are read, and what waits there, or in a buffer before it, comes at once.
    """
    begin, end = max(trace.first for trace in traces), min(trace.last for trace in traces)
    if end - begin < LEAST_DECODE_S:
        return None
    timed = [trace.within(begin, end) for trace in traces]
    if any(burst(pieces) for pieces in timed):
        return None
    if len(traces) > 1 and min(map(len, timed)) < LEAST_PIECES:
        return None
    together = sum(tokens for pieces in timed for _, tokens in pieces)
    return together / (end - begin) if together > 0 else None


def burst(pieces: Sequence[tuple[float, float]]) -> bool:
    """Whether most of it came at one time."""
    most, inside, oldest = 0.0, 0.0, 0
    for at, tokens in pieces:
        inside += tokens
        while at - pieces[oldest][0] > BURST_S:
            inside -= pieces[oldest][1]
            oldest += 1
        most = max(most, inside)
    return most > BURST * sum(tokens for _, tokens in pieces)


def prefill_rate(trace: Trace) -> float | None:
    """Prompt tokens a second until the first token, of a prompt that no cache held."""
    if not trace.prompt_tokens or trace.ttft <= 0:
        return None
    return trace.prompt_tokens / trace.ttft


def doubt(trace: Trace, point: Point) -> str:
    """Why this request does not show what the point is about; empty where it does."""
    if trace.error:
        return trace.error
    if point.kind == "decode" and trace.tokens < min(point.max_tokens, LEAST_ANSWER):
        return f"an answer ended after {trace.tokens} of {point.max_tokens} tokens, though it was to ignore the end"
    return of_other_length(trace, point)


def of_other_length(trace: Trace, point: Point) -> str:
    """A prompt that nobody counted, or that came out otherwise than meant: then its rate is of another context."""
    prefill, length = point.kind == "prefill", trace.prompt_tokens
    if length is None:
        unknown = prefill or point.context is not None
        return "nobody says how long its prompts were: no tokenizer answers, and no counts come" if unknown else ""
    off = abs(length - point.prompt_tokens)
    if point.context is not None and off > max(LENGTH_SLACK, LENGTH_OFF * point.prompt_tokens):
        return f"a prompt was {length:,} tokens long, and {point.prompt_tokens:,} were meant"
    if prefill and trace.cached > CACHED * length:
        return f"a cache gave {trace.cached:,} of a prompt's {length:,} tokens, though its text was new"
    return ""
