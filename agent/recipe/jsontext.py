"""JSON from strangers: bounded, with its oddities noted instead of swallowed."""

from __future__ import annotations

import json
from typing import Any

from agent.recipe.trouble import BadRecipe

MAX_BYTES = 5_000_000
"""A recipe has about 16 KB; the site's largest listing page some hundred."""


def parse(data: bytes, what: str, notes: list[str]) -> Any:
    """The value in `data`. Raises BadRecipe; keys that stand twice and NaN are told in `notes`."""
    if len(data) > MAX_BYTES:
        raise BadRecipe(what=what, why=f"it is larger than {MAX_BYTES // 1_000_000} MB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRecipe(what=what, why=f"it is no UTF-8 text (byte {error.start})") from error
    return loads(text, what, notes)


def loads(text: str, what: str, notes: list[str]) -> Any:
    """As `parse`, from text."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in items}) != len(items):
            seen: set[str] = set()
            twice = next(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            notes.append(f"the key {twice!r} stands twice in one object; the last one counts")
        return dict(items)

    def constant(word: str) -> None:
        notes.append(f"{word} is no number in JSON and reads as null")

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except json.JSONDecodeError as error:
        raise BadRecipe(what=what, why=f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except (RecursionError, ValueError) as error:  # nested too deeply; a number of thousands of digits
        why = "it is nested too deeply" if isinstance(error, RecursionError) else "a number in it has too many digits"
        raise BadRecipe(what=what, why=why) from error
    _encodable(value, what)
    return value


def _encodable(value: Any, what: str) -> None:
    """Half a surrogate pair is legal JSON and can be neither printed nor sent."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BadRecipe(what=what, why="a text in it holds half a surrogate pair, which is no character") from error
    except RecursionError as error:
        raise BadRecipe(what=what, why="it is nested too deeply") from error
