"""Filters apply to what is stated; what is not stated is unknown."""

from __future__ import annotations

import pytest

from agent.recipe.listing import Query, read_page
from agent.recipe.read import read_recipe
from agent.recipe.search import fit
from agent.recipe.trouble import BadRecipe
from tests.recipe.documents import document, encode, entry, listing

RECIPE = read_recipe(encode(document()), "a file")
ENTRY = read_page(listing(entry("listed-only", tags=["long-context"])), "a site").entries[0]


@pytest.mark.parametrize(
    ("query", "whole", "listed"),
    [
        (Query(), (), ()),
        (Query(text="long-context"), (), ()),
        (Query(text="absent"), None, None),
        (Query(engine="vllm"), (), ("engine",)),
        (Query(engine="sglang"), None, ("engine",)),
        (Query(card="Card 1"), (), ("card",)),
        (Query(card="h100"), None, ("card",)),
        (Query(vram_gb=63.5), (), ("vram",)),
        (Query(vram_gb=48), None, ("vram",)),
        (Query(max_gpus=2), (), ("max-gpus",)),
        (Query(max_gpus=1), None, ("max-gpus",)),
    ],
)
def test_a_filter_fits_fails_or_is_unknown(
    query: Query, whole: tuple[str, ...] | None, listed: tuple[str, ...] | None
) -> None:
    for recipe, expected in ((RECIPE, whole), (ENTRY, listed)):
        hit = fit(recipe, query)
        assert (hit.unknown if hit else None) == expected


def test_an_entry_has_no_bytes_to_pin() -> None:
    assert ENTRY.sha256 is None
    assert ENTRY.revision.content_hash == "c" * 40


def test_an_entry_that_cannot_be_read_is_noted_and_the_rest_is_there() -> None:
    page = read_page(listing({"title": "no slug"}, entry("good"), "text"), "a site")
    assert [recipe.slug for recipe in page.entries] == ["good"]
    assert page.notes == tuple(
        f"entry {at} of a site is left out: {why}" for at, why in ((0, "it has no slug"), (2, "it is no object"))
    )


def test_what_is_no_listing_is_refused() -> None:
    with pytest.raises(BadRecipe, match="no listing"):
        read_page({"error": "x"}, "a site")
