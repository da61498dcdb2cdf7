"""JSON as a recording holds it: every number finite and of a size that something was measured in (pure)."""

from __future__ import annotations

import json
from typing import Any

from agent.errors import InvalidInput

LARGEST = 1e30
"""Beyond every counter of an engine: a card's floating point operations of a century are 1e25."""


def loads(text: str) -> Any:
    """One line. Raises InvalidInput for what is no measurement, ValueError and RecursionError for what is no JSON.

    NaN differs from itself, so that it would pass for progress at every look; a key that stands twice is a mistake.
    """
    return json.loads(text, parse_float=number, parse_int=whole, parse_constant=number, object_pairs_hook=object_of)


def dumps(line: Any) -> str:
    return json.dumps(line)


def number(text: str) -> float:
    value = float(text)
    if not -LARGEST <= value <= LARGEST:
        raise InvalidInput(f"{text[:20]} is no number that could be measured")
    return value


def whole(text: str) -> int:
    number(text)
    return int(text)


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for place, (key, _) in enumerate(pairs) if key in dict(pairs[:place]))
        raise InvalidInput(f"the key {twice[:40]!r} stands twice")
    return found
