"""What sources list, and what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.recipe.model import Recipe
from agent.recipe.read import build, is_listing
from agent.recipe.trouble import BadRecipe


@dataclass(frozen=True, slots=True)
class Query:
    """A search. None asks for nothing; `vram_gb` is the most memory of one card, `max_gpus` the most cards."""

    text: str | None = None
    engine: str | None = None
    card: str | None = None
    vram_gb: float | None = None
    max_gpus: int | None = None

    def parameters(self) -> dict[str, str]:
        """As a site's own parameters (the keys of its `meta.applied`); sites have none for the number of cards."""
        named = {"search": self.text, "engine": self.engine, "hardware": self.card}
        named["vram"] = None if self.vram_gb is None else f"{self.vram_gb:g}"
        return {key: value for key, value in named.items() if value}


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing; `applied` are the filters that the server says it used."""

    entries: tuple[Recipe, ...]
    page: int = 1
    pages: int = 1
    applied: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()


def read_page(value: Any, source: str) -> Page:
    """A page of `{"meta": {…}, "recipes": […]}`. Raises BadRecipe; an entry that cannot be read is noted."""
    if not is_listing(value):
        raise BadRecipe(what=source, why="it is no listing of recipes")
    entries, notes = [], []
    for at, entry in enumerate(value["recipes"]):
        try:
            entries.append(_entry(entry, source))
        except BadRecipe as error:
            notes.append(f"entry {at} of {source} is left out: {error.details['why']}")
    meta = value.get("meta") if isinstance(value.get("meta"), dict) else {}
    applied = meta.get("applied") if isinstance(meta.get("applied"), dict) else None
    return Page(tuple(entries), _count(meta.get("page")), _count(meta.get("pages")), applied, tuple(notes))


def _entry(entry: Any, source: str) -> Recipe:
    if not isinstance(entry, dict):
        raise BadRecipe(what=source, why="it is no object")
    return build(entry, source, None, [])


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 1
