"""`config.runtime.env`: `A=1 | B=2 (note)` in some documents, prose in others."""

from __future__ import annotations

import re

from agent.recipe.model import Recipe

_ENTRY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(\S*)(?:\s+\([^)]*\)\.?)?")


def stated_environment(recipe: Recipe) -> dict[str, str]:
    """The variables that a document lists; none where one part of the text is no `NAME=value`, for then it is prose."""
    config = recipe.document.get("config")
    runtime = config.get("runtime") if isinstance(config, dict) else None
    stated = runtime.get("env") if isinstance(runtime, dict) else None
    if isinstance(stated, dict):
        return {str(name): str(value) for name, value in stated.items() if isinstance(value, str | int | float)}
    if not isinstance(stated, str):
        return {}
    entries = [_ENTRY.fullmatch(part.strip()) for part in stated.split("|")]
    return {entry[1]: entry[2] for entry in entries if entry} if all(entries) else {}
