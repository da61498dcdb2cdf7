"""Recipes in a folder of this host, and single files: read in a thread, since a disk can be slow."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent.errors import AgentError
from agent.recipe.jsontext import MAX_BYTES, parse
from agent.recipe.listing import Page, Query, read_page
from agent.recipe.model import Recipe
from agent.recipe.read import is_listing, read_recipe
from agent.recipe.source import Fetched, Pin, Unchanged
from agent.recipe.trouble import BadRecipe, SourceTrouble


class FolderSource:
    """A folder with one `*.json` a recipe, and perhaps pages of a listing. What is in a file counts, not its name."""

    remote = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = str(folder)

    async def fetch(self, slug: str, pin: Pin | None = None) -> Fetched | Unchanged | None:
        """The file SLUG.json, else the first whose document has that slug."""
        return await asyncio.to_thread(self._fetch, slug)

    async def entry(self, slug: str) -> Recipe | None:
        pages = await asyncio.to_thread(self._listings)
        return next((entry for page in pages for entry in page.entries if entry.slug == slug), None)

    async def search(self, query: Query) -> tuple[Page, ...]:
        return await asyncio.to_thread(lambda: (self._documents(), *self._listings()))

    def owns(self, url: str) -> str | None:
        return None

    def _files(self) -> list[Path]:
        try:
            return sorted(path for path in self.folder.iterdir() if path.suffix == ".json" and path.is_file())
        except FileNotFoundError:
            return []  # a folder that is not there has no recipes
        except OSError as error:
            raise SourceTrouble(what="the folder", source=self.name, why=error.strerror or str(error)) from error

    def _fetch(self, slug: str) -> Fetched | None:
        """A file that cannot be read hides no other; it is the reason where none of the rest has the slug."""
        files = self._files()
        trouble: AgentError | None = None
        for path in sorted(files, key=lambda path: path.stem != slug):
            try:
                data = read_file(path)
                if path.stem != slug and f'"{slug}"'.encode() not in data:
                    continue
                found = _slug(data, path)
            except AgentError as error:
                trouble = trouble or error
                continue
            if found == slug:
                return Fetched(data, str(path))
        if trouble is not None:
            raise trouble
        return None

    def _documents(self) -> Page:
        found: dict[str, tuple[Recipe, Path]] = {}
        notes: list[str] = []
        for path in self._files():
            try:
                data = read_file(path)
                if is_listing(parse(data, str(path), [])):
                    continue
                recipe = read_recipe(data, str(path))
            except AgentError as error:
                notes.append(error.text)
                continue
            twin = found.get(recipe.slug)
            if twin is None or path.stem == recipe.slug:
                found[recipe.slug] = (recipe, path)
            if twin is not None:
                counts = found[recipe.slug][1].name
                notes.append(f"{twin[1].name} and {path.name} are both {recipe.slug}; {counts} counts")
        return Page(tuple(recipe for recipe, _ in found.values()), notes=tuple(notes))

    def _listings(self) -> tuple[Page, ...]:
        pages = []
        for path in self._files():
            try:
                value = parse(read_file(path), str(path), [])
            except AgentError:
                continue  # told by the search of documents
            if is_listing(value):
                pages.append(read_page(value, str(path)))
        return tuple(pages)


def read_file(path: Path) -> bytes:
    """A file's bytes, no more than a recipe may have. Raises SourceTrouble, BadRecipe."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise SourceTrouble(what="the file", source=str(path), why=error.strerror or str(error)) from error
    if len(data) > MAX_BYTES:
        raise BadRecipe(what=str(path), why=f"it is larger than {MAX_BYTES // 1_000_000} MB")
    return data


def _slug(data: bytes, path: Path) -> str | None:
    """Of a document; a listing has none. Raises BadRecipe."""
    return None if is_listing(parse(data, str(path), [])) else read_recipe(data, str(path)).slug
