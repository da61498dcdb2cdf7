"""Getting a recipe by its slug: pinned at first sight, compared with its source after that, never changed silently."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from agent.clock import Clock
from agent.errors import AgentError
from agent.quantity import say_duration
from agent.recipe.changes import compare
from agent.recipe.found import Found, Results, differing
from agent.recipe.listing import Query
from agent.recipe.model import Recipe
from agent.recipe.read import SLUG, read_recipe
from agent.recipe.search import Hit, fit
from agent.recipe.source import Fetched, Pin, Pins, Source, Unchanged
from agent.recipe.trouble import ForeignHost, NoRecipe, PinBroken, SourceTrouble

__all__ = ["Found", "Library", "Results"]


@dataclass(frozen=True, slots=True)
class Library:
    """All sources in their order, over the pins. `recheck_s`: a pin confirmed less than this ago is used unasked."""

    sources: Sequence[Source]
    pins: Pins
    clock: Clock
    recheck_s: float = 300.0

    async def get(self, slug: str) -> Found:
        """The pinned recipe, or the first source's, which is pinned by that. Raises NoRecipe, SourceTrouble."""
        _check(slug)
        kept = await self.pins.get(slug)
        if kept is None:
            return await self._first(slug)
        pin, data = kept
        pinned = read_recipe(data, pin.source)
        source = next((source for source in self.sources if _came_from(pin, source)), None)
        if source is None:
            gone = f"its source {pin.source} is no longer configured"
            return self._aged(pinned, pin, f"the pinned copy is used: {gone}")
        age = self.clock.now().wall - pin.checked_at
        if source.remote and 0 <= age < self.recheck_s:
            return Found(pinned, age_s=age)
        return await self._compare(source, pin, pinned)

    async def fetch(self, reference: str) -> Found:
        """The newest state, pinned in place of an older one; `difference` says what that changes."""
        slug = _check(self.slug_of(reference))
        kept = await self.pins.get(slug)
        found = await self._first(slug)
        if kept is None or found.recipe.sha256 is None:
            return found
        old = read_recipe(kept[1], kept[0].source)
        return replace(found, difference=compare(old, found.recipe))

    async def search(self, query: Query) -> Results:
        """Hits of all sources, the first source of a slug counting. Raises SourceTrouble where none can be asked."""
        hits: dict[str, Hit] = {}
        notes: list[str] = []
        troubles: list[AgentError] = []
        for source in self.sources:
            try:
                pages = await source.search(query)
            except AgentError as error:
                troubles.append(error)
                notes.append(error.text)
                continue
            for page in pages:
                notes.extend(page.notes)
                for entry in page.entries:
                    hit = fit(await self._fuller(entry), query)
                    if hit is not None:
                        hits.setdefault(entry.slug, hit)
        if troubles and len(troubles) == len(self.sources):
            raise troubles[0]
        return Results(tuple(hits.values()), tuple(notes))

    def slug_of(self, reference: str) -> str:
        """The slug that a word of the command line means: itself, or what a source's own URL names."""
        if not reference.startswith(("http://", "https://")):
            return reference
        slugs = [slug for source in self.sources if (slug := source.owns(reference)) is not None]
        if slugs:
            return slugs[0]
        site = "/".join(reference.split("/")[:3])
        raise ForeignHost(url=reference, host=site.split("//")[-1], site=site)

    async def _fuller(self, entry: Recipe) -> Recipe:
        """The document where it was fetched before: an entry states neither engine nor hardware."""
        try:
            kept = await self.pins.get(entry.slug)
        except PinBroken:
            return entry
        return read_recipe(kept[1], kept[0].source) if kept else entry

    async def _first(self, slug: str) -> Found:
        troubles: list[AgentError] = []
        for source in self.sources:
            try:
                fetched = await source.fetch(slug)
                if isinstance(fetched, Fetched):
                    return await self._pin(slug, fetched)
            except AgentError as error:
                troubles.append(error)
        listed = await self._listed(slug, troubles)
        if listed is not None:
            return listed
        if troubles:
            raise troubles[0]
        names = ", ".join(source.name for source in self.sources) or "no source is configured"
        raise NoRecipe(name=slug, why=f"looked in {names}")

    async def _listed(self, slug: str, troubles: list[AgentError]) -> Found | None:
        for source in self.sources:
            try:
                entry = await source.entry(slug)
            except AgentError as error:
                troubles.append(error)
                continue
            if entry is not None:
                why = f"{source.name} lists {slug} without its document: only what the listing states is known"
                return Found(entry, (why,))
        return None

    async def _pin(self, slug: str, fetched: Fetched) -> Found:
        recipe = read_recipe(fetched.data, fetched.source)
        if recipe.slug != slug:
            why = f"the document there calls itself {recipe.slug!r}"
            raise SourceTrouble(what=f"the recipe {slug}", source=fetched.source, why=why)
        notes = await self._keep(self._pin_of(slug, fetched), fetched.data)
        return Found(recipe, notes, age_s=0.0)

    async def _keep(self, pin: Pin, data: bytes | None) -> tuple[str, ...]:
        """A reader without the right to write the cache still reads; that nothing was pinned is said."""
        try:
            await self.pins.put(pin, data)
        except SourceTrouble as error:
            return (f"the recipe is not pinned: {error.text}",)
        return ()

    async def _compare(self, source: Source, pin: Pin, pinned: Recipe) -> Found:
        try:
            answer = await source.fetch(pin.slug, pin)
        except AgentError as error:
            return self._aged(pinned, pin, f"the pinned copy is used: {error.text}")
        if answer is None:
            return self._aged(pinned, pin, f"the pinned copy is used: {source.name} no longer has this recipe")
        now = self.clock.now().wall
        if isinstance(answer, Unchanged) or hashlib.sha256(answer.data).hexdigest() == pin.sha256:
            notes = await self._keep(replace(pin, checked_at=now), None)
            return Found(pinned, notes, age_s=0.0)
        return differing(pinned, read_recipe(answer.data, answer.source))

    def _aged(self, recipe: Recipe, pin: Pin, why: str) -> Found:
        age = max(0.0, self.clock.now().wall - pin.checked_at)
        return Found(recipe, (f"{why} (confirmed {say_duration(timedelta(seconds=age))} ago)",), age_s=age)

    def _pin_of(self, slug: str, fetched: Fetched) -> Pin:
        now = self.clock.now().wall
        digest = hashlib.sha256(fetched.data).hexdigest()
        return Pin(slug, digest, fetched.source, now, now, fetched.etag, fetched.last_modified)


def _check(slug: str) -> str:
    if not SLUG.fullmatch(slug):
        raise NoRecipe(name=slug, why="it is no slug (letters, digits, dots and dashes)")
    return slug


def _came_from(pin: Pin, source: Source) -> bool:
    return pin.source == source.name or pin.source.startswith(source.name.rstrip("/") + "/")
