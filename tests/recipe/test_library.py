"""A slug is pinned at first sight and never changes silently; a source's trouble never hides what is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from agent.clock import Instant
from agent.recipe.changes import Kind
from agent.recipe.library import Library
from agent.recipe.listing import Page, Query
from agent.recipe.model import Recipe
from agent.recipe.read import read_recipe
from agent.recipe.source import Fetched, Pin, Unchanged
from agent.recipe.trouble import ForeignHost, NoRecipe, SourceTrouble
from tests.recipe.documents import document, encode

SLUG = "small-model-on-2x-card"


@dataclass
class Site:
    """A source of the tests: what it has, whether it answers, and how often it was asked."""

    name: str = "https://site.example"
    remote: bool = True
    documents: dict[str, bytes] = field(default_factory=dict)
    entries: list[Recipe] = field(default_factory=list)
    down: bool = False
    asked: int = 0
    conditional: bool = False

    async def fetch(self, slug: str, pin: Pin | None = None) -> Fetched | Unchanged | None:
        self._answer()
        if self.conditional and pin is not None:
            return Unchanged()
        data = self.documents.get(slug)
        return Fetched(data, f"{self.name}/{slug}.json", etag='"1"') if data is not None else None

    async def entry(self, slug: str) -> Recipe | None:
        self._answer()
        return next((entry for entry in self.entries if entry.slug == slug), None)

    async def search(self, query: Query) -> tuple[Page, ...]:
        self._answer()
        whole = [read_recipe(data, self.name) for data in self.documents.values()]
        return (Page((*whole, *self.entries)),)

    def owns(self, url: str) -> str | None:
        head = f"{self.name}/"
        return url.removeprefix(head).removesuffix(".json") if url.startswith(head) else None

    def _answer(self) -> None:
        self.asked += 1
        if self.down:
            raise SourceTrouble(what="the recipe", source=self.name, why="no answer")


@dataclass
class Memory:
    """Pins that are kept in memory, or cannot be written."""

    kept: dict[str, tuple[Pin, bytes]] = field(default_factory=dict)
    readonly: bool = False

    async def get(self, slug: str) -> tuple[Pin, bytes] | None:
        return self.kept.get(slug)

    async def put(self, pin: Pin, data: bytes | None = None) -> None:
        if self.readonly:
            raise SourceTrouble(what="the cache", source="/cache", why="Permission denied")
        self.kept[pin.slug] = (pin, data if data is not None else self.kept[pin.slug][1])


@dataclass
class Hand:
    """A clock that is set by hand."""

    wall: float = 1_000_000.0

    def now(self) -> Instant:
        return Instant(self.wall, self.wall)


@dataclass
class Bench:
    site: Site
    pins: Memory
    clock: Hand
    library: Library

    def publish(self, **changes: Any) -> None:
        self.site.documents[SLUG] = encode(document(**changes))


@pytest.fixture
def bench() -> Bench:
    site, pins, clock = Site(), Memory(), Hand()
    made = Bench(site, pins, clock, Library([site], pins, clock, recheck_s=300))
    made.publish()
    return made


async def test_the_first_sight_pins(bench: Bench) -> None:
    found = await bench.library.get(SLUG)
    assert found.recipe.sha256 == bench.pins.kept[SLUG][0].sha256
    assert found.notes == ()


async def test_a_pin_confirmed_a_moment_ago_is_used_unasked(bench: Bench) -> None:
    await bench.library.get(SLUG)
    bench.clock.wall += 299
    found = await bench.library.get(SLUG)
    assert (bench.site.asked, found.age_s) == (1, 299)


async def test_a_revision_is_told_and_the_pinned_one_is_used_until_it_is_fetched(bench: Bench) -> None:
    first = await bench.library.get(SLUG)
    bench.publish(hardware=[], revision={"no": 4, "content_hash": "d" * 40})
    bench.clock.wall += 301
    found = await bench.library.get(SLUG)
    assert found.recipe == first.recipe
    assert found.difference.kind is Kind.REVISION
    said = "another revision (4, dddddddddddd instead of 3, aaaaaaaaaaaa; different: hardware, revision)"
    assert said in found.notes[0]
    assert f"agentctl recipes fetch {SLUG}" in found.notes[0]
    assert found.notes[1].startswith("the new revision changes hardware[0]: {'vendor': 'nvidia'")
    fetched = await bench.library.fetch(SLUG)
    assert (fetched.recipe.revision.number, fetched.difference.kind) == (4, Kind.REVISION)
    assert (await bench.library.get(SLUG)).recipe.revision.number == 4


async def test_votes_are_a_note_and_the_pinned_bytes_stay(bench: Bench) -> None:
    first = await bench.library.get(SLUG)
    bench.publish(votes=99)
    bench.clock.wall += 301
    found = await bench.library.get(SLUG)
    assert found.recipe.sha256 == first.recipe.sha256
    assert found.difference.kind is Kind.NOTE
    assert "other bytes of the same revision (votes moved)" in found.notes[0]


async def test_the_same_answer_and_a_conditional_one_renew_the_pin(bench: Bench) -> None:
    await bench.library.get(SLUG)
    for conditional in (False, True):
        bench.site.conditional = conditional
        bench.clock.wall += 301
        assert (await bench.library.get(SLUG)).notes == ()
        assert bench.pins.kept[SLUG][0].checked_at == bench.clock.wall


async def test_without_its_source_the_pin_works_and_says_its_age(bench: Bench) -> None:
    await bench.library.get(SLUG)
    bench.site.down = True
    bench.clock.wall += 2 * 86400
    found = await bench.library.get(SLUG)
    assert found.recipe.slug == SLUG
    assert found.notes[0].endswith("no answer (confirmed 2 d ago)")


@pytest.mark.parametrize("sources", [[], [Site("https://elsewhere.example")]], ids=["none", "another"])
async def test_a_pin_outlives_the_configuration_of_its_source(bench: Bench, sources: list[Site]) -> None:
    await bench.library.get(SLUG)
    found = await Library(sources, bench.pins, bench.clock).get(SLUG)
    assert "is no longer configured" in found.notes[0]


async def test_a_recipe_that_its_source_took_away_still_works(bench: Bench) -> None:
    await bench.library.get(SLUG)
    bench.site.documents.clear()
    bench.clock.wall += 301
    assert "no longer has this recipe" in (await bench.library.get(SLUG)).notes[0]


async def test_a_cache_that_cannot_be_written_costs_the_pin_alone(bench: Bench) -> None:
    bench.pins.readonly = True
    found = await bench.library.get(SLUG)
    assert found.notes == ("the recipe is not pinned: cannot read the cache from /cache: Permission denied",)


async def test_a_mere_entry_is_found_last_and_has_no_bytes(bench: Bench) -> None:
    bench.site.entries = [Recipe("listed", "listed", bench.site.name, None)]
    found = await bench.library.get("listed")
    assert found.recipe.sha256 is None
    assert "lists listed without its document" in found.notes[0]
    assert bench.pins.kept == {}


async def test_one_source_down_does_not_hide_anothers_recipe(bench: Bench) -> None:
    down = Site("https://down.example", down=True)
    library = Library([down, bench.site], bench.pins, bench.clock)
    assert (await library.get(SLUG)).recipe.slug == SLUG
    results = await library.search(Query())
    assert [hit.recipe.slug for hit in results.hits] == [SLUG]
    assert results.notes == ("cannot read the recipe from https://down.example: no answer",)


async def test_only_when_no_source_answers_is_it_an_error(bench: Bench) -> None:
    bench.site.down = True
    with pytest.raises(SourceTrouble):
        await bench.library.get(SLUG)
    with pytest.raises(SourceTrouble):
        await bench.library.search(Query())


async def test_a_recipe_that_nobody_has_is_not_found(bench: Bench) -> None:
    with pytest.raises(NoRecipe, match=r"looked in https://site.example"):
        await bench.library.get("absent")
    with pytest.raises(NoRecipe, match="no slug"):
        await bench.library.get("../etc/passwd")


async def test_a_document_with_anothers_slug_is_refused(bench: Bench) -> None:
    bench.site.documents["other"] = encode(document())
    with pytest.raises(SourceTrouble, match="calls itself"):
        await bench.library.get("other")


async def test_a_url_is_taken_of_configured_hosts_only(bench: Bench) -> None:
    assert bench.library.slug_of(f"https://site.example/{SLUG}.json") == SLUG
    with pytest.raises(ForeignHost) as caught:
        bench.library.slug_of("https://evil.example/x.json")
    assert caught.value.advice == "add https://evil.example to `sources` in agent.yaml"


async def test_a_search_sees_through_an_entry_to_the_document_that_was_fetched(bench: Bench) -> None:
    await bench.library.get(SLUG)
    bench.site.documents.clear()
    bench.site.entries = [Recipe(SLUG, "listed", bench.site.name, None)]
    results = await bench.library.search(Query(card="card-1"))
    assert [(hit.recipe.slug, hit.unknown) for hit in results.hits] == [(SLUG, ())]
