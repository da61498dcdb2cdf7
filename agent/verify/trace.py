"""What one streamed answer showed, and what several together say (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

LEAST_DECODE_S = 0.2
"""A reader that was kept from reading for 20 ms falsifies this by a tenth, and anything shorter by more."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One request. Times are seconds of one monotonic clock; `pieces` when each piece of text came."""

    sent: float
    pieces: tuple[float, ...]
    tokens: int
    prompt_tokens: int | None
    error: str = ""

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

    A piece may hold several tokens (speculative decoding), so pieces count as their request's tokens over its pieces.
    None where the requests never decoded side by side for long enough: pieces are timed where they are read, and what
    waits there comes as one burst.
    """
    begin, end = max(trace.first for trace in traces), min(trace.last for trace in traces)
    if end - begin < LEAST_DECODE_S:
        return None
    together = 0.0
    for trace in traces:
        inside = sum(begin < at <= end for at in trace.pieces)
        together += inside * trace.tokens / len(trace.pieces)
    return together / (end - begin) if together > 0 else None


def prefill_rate(trace: Trace) -> float | None:
    """Prompt tokens a second until the first token, of a prompt that no cache held."""
    if not trace.prompt_tokens or trace.ttft <= 0:
        return None
    return trace.prompt_tokens / trace.ttft
