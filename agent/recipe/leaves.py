"""Every text of a document with its place, so that a plan can say what it did not use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agent.recipe.model import Leaf


def leaves(value: Any, path: str = "") -> Iterator[Leaf]:
    """The string leaves below `value`; a text that is a JSON object or list is walked in its place."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    elif isinstance(value, str) and value.strip():
        inner = embedded(value)
        if inner is None or _launch(path):
            yield Leaf(path, value)
        else:
            yield from leaves(inner, path)


def _launch(path: str) -> bool:
    """A launch's word may be JSON (`--speculative-config {…}`) and is one word all the same."""
    return path.startswith("config.launch")


def embedded(text: str) -> Any:
    """The object or list that a text holds as JSON, else None."""
    if text[:1] not in "{[":
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None
