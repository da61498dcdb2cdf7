"""Whose word each value of a plan is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from agent.profile.document import Profile
from agent.profile.fact import Fact, Stated
from agent.recipe.model import Recipe


def of_profile(profile: Profile) -> dict[str, str]:
    """Every stated value of a profile by its dotted key."""
    return dict(_walk(profile, ""))


def _walk(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Stated):
        yield key, value.origin(key)
        if isinstance(value, Fact):
            return
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            if name in value.model_fields_set and name not in ("path", "words", "also", "layer"):
                yield from _walk(getattr(value, name), f"{key}.{field.alias or name}" if key else field.alias or name)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _walk(item, f"{key}.{name}")
    elif isinstance(value, tuple):
        for at, item in enumerate(value):
            yield from _walk(item, f"{key}[{at}]")


def stale(recipe: Recipe, profile: Profile, quotes: Mapping[str, list[Any]]) -> Iterator[str]:
    """Warnings where a profile was written for another state of the recipe, with the words that are gone."""
    stated = profile.recipe
    if stated is None or stated.content_hash is None or stated.content_hash == recipe.revision.content_hash:
        return
    texts = {leaf.path: leaf.text for leaf in recipe.leaves}
    gone = [
        f"{path} no longer says {words!r}"
        for path, found in quotes.items()
        for quote in found
        for words in quote.words
        if words not in texts.get(path, "")
    ]
    told = "; ".join(gone[:5]) + (f"; and {len(gone) - 5} more" if len(gone) > 5 else "")
    what = told or "every word that it quotes is still there"
    have = recipe.revision.content_hash or "none"
    yield f"the profile was written for content_hash {stated.content_hash[:12]}, the recipe has {have[:12]}: {what}"
