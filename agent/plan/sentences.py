"""A text in sentences, each with where it stands, so that one can be acted on and its neighbour not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_END = re.compile(r"(?<=[.;!?])\s+|\n+| \| ")


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of every sentence; a semicolon, a line's end and ` | ` part them as well."""
    at = 0
    for mark in _END.finditer(text):
        if mark.start() > at:
            yield at, mark.start()
        at = mark.end()
    if at < len(text):
        yield at, len(text)


def untouched(text: str, quotes: Sequence[str]) -> Iterator[str]:
    """The sentences that no quote overlaps."""
    taken = sorted((at, at + len(quote)) for quote in quotes for at in _places(text, quote))
    at, reached = 0, 0
    for start, end in sentences(text):
        while at < len(taken) and taken[at][0] < end:
            reached = max(reached, taken[at][1])
            at += 1
        if reached <= start:
            yield text[start:end]


def _places(text: str, quote: str) -> Iterator[int]:
    at = text.find(quote)
    while quote and at >= 0:
        yield at
        at = text.find(quote, at + len(quote))
