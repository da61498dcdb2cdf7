"""Filters on what a document or an entry states; what it does not state neither fits nor fails."""

from __future__ import annotations

from dataclasses import dataclass

from agent.recipe.listing import Query
from agent.recipe.model import Recipe

NOMINAL = 0.05
"""Sizes of cards are nominal: 64 GB cards have 63.5."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A recipe that fits as far as it says; `unknown` are the filters that it says nothing about."""

    recipe: Recipe
    unknown: tuple[str, ...] = ()


def fit(recipe: Recipe, query: Query) -> Hit | None:
    """The hit, or None where something stated does not fit."""
    verdicts = {
        "text": _text(recipe, query),
        "engine": _engine(recipe, query),
        "card": _card(recipe, query),
        "vram": _vram(recipe, query),
        "max-gpus": _gpus(recipe, query),
    }
    if False in verdicts.values():
        return None
    return Hit(recipe, tuple(name for name, verdict in verdicts.items() if verdict is None))


def _text(recipe: Recipe, query: Query) -> bool | None:
    """Every word somewhere in the slug, the title, the summary or the tags."""
    if not query.text:
        return True
    where = " ".join((recipe.slug, recipe.title, recipe.summary, *recipe.tags)).lower()
    return all(word in where for word in query.text.lower().split())


def _engine(recipe: Recipe, query: Query) -> bool | None:
    if not query.engine:
        return True
    return None if recipe.engine is None else query.engine.lower() in recipe.engine.lower()


def _card(recipe: Recipe, query: Query) -> bool | None:
    if not query.card:
        return True
    cards = [hardware.card for hardware in recipe.hardware if hardware.card]
    wanted = _plain(query.card)
    return None if not cards else any(wanted in _plain(card) for card in cards)


def _vram(recipe: Recipe, query: Query) -> bool | None:
    """A card of this many GB is enough."""
    if query.vram_gb is None:
        return True
    sizes = [hardware.vram_gb for hardware in recipe.hardware if hardware.vram_gb]
    return None if not sizes else min(sizes) <= query.vram_gb * (1 + NOMINAL)


def _gpus(recipe: Recipe, query: Query) -> bool | None:
    if query.max_gpus is None:
        return True
    counts = [hardware.count for hardware in recipe.hardware if hardware.count]
    return None if not counts else min(counts) <= query.max_gpus


def _plain(text: str) -> str:
    return "".join(char for char in text.lower() if char.isalnum())
