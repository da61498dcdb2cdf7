"""The shipped profiles say of every fact which words of the recipe they were read from, and the words are there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agent.profile.fact import Quote, Stated
from agent.profile.load import SHIPPED_FOLDER, load, shipped
from agent.profile.trouble import BadProfile
from agent.recipe.leaves import embedded
from agent.recipe.listing import read_page
from agent.recipe.model import Recipe
from agent.recipe.read import read_recipe

SLUGS = sorted(path.stem for path in SHIPPED_FOLDER.glob("*.yaml"))


@pytest.fixture(scope="session")
def recipes(shared: Path) -> dict[str, Recipe]:
    listing = json.loads((shared / "recipes" / "listing.json").read_text())
    found = {entry.slug: entry for entry in read_page(listing, "the listing").entries}
    for path in (shared / "recipes").glob("deepseek*.json"):
        recipe = read_recipe(path.read_bytes(), str(path))
        found[recipe.slug] = recipe
    return found


def quotes(value: Any, key: str = "") -> Iterator[tuple[str, Quote]]:
    if isinstance(value, Stated):
        yield from ((key, quote) for quote in value.quotes())
    if isinstance(value, BaseModel):
        for name in value.model_fields_set:
            yield from quotes(getattr(value, name), f"{key}.{name}")
    elif isinstance(value, dict | tuple):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from quotes(item, f"{key}.{name}")


def field(document: Any, path: str) -> Any:
    """The value at `a.b[0].c`, JSON within a text looked into."""
    for part in path.replace("[", ".[").split("."):
        document = embedded(document) if isinstance(document, str) else document
        document = document[int(part[1:-1])] if part.startswith("[") else document[part]
    return document


@pytest.mark.parametrize("slug", SLUGS)
def test_every_quote_stands_in_the_recipe_where_it_says(slug: str, recipes: dict[str, Recipe]) -> None:
    profile, recipe = shipped(slug), recipes[slug]
    for key, quote in quotes(profile):
        there = field(recipe.document, quote.path)
        for words in quote.words:
            assert isinstance(there, str), f"{key}: {quote.path} is no text"
            assert words in there, f"{key}: {words!r} does not stand in {quote.path}"


@pytest.mark.parametrize("slug", SLUGS)
def test_a_profile_is_written_for_a_state_of_its_recipe(slug: str, recipes: dict[str, Recipe]) -> None:
    profile = shipped(slug)
    assert profile is not None
    assert profile.recipe is not None
    assert profile.recipe.content_hash == recipes[slug].revision.content_hash


def test_every_recipe_of_the_listing_has_a_profile(recipes: dict[str, Recipe]) -> None:
    assert set(recipes) == set(SLUGS)


def test_what_the_recipe_does_not_state_is_not_stated_here(recipes: dict[str, Recipe]) -> None:
    """A fact without a source is the agent's own; only container flags and build steps' details may be that."""
    for slug in SLUGS:
        for section in ("requirements", "serving", "engine", "env", "watch", "acceptance"):
            part = getattr(shipped(slug), section)
            facts = part.values() if isinstance(part, dict) else [getattr(part, name) for name in part.model_fields_set]
            assert all(fact.path is not None for fact in facts), f"{slug} {section}"


def test_a_profile_under_anothers_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("recipe: {slug: b}")
    with pytest.raises(BadProfile, match="it says that it is for 'b'"):
        load(tmp_path, "a")
    assert load(tmp_path, "absent") is None
