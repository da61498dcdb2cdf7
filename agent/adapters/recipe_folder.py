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
        files = self._files()
        for path in sorted(files, key=lambda path: path.stem != slug):
            data = read_file(path)
            if f'"{slug}"'.encode() in data and _slug(data, path) == slug:
                return Fetched(data, str(path))
        return None

    def _documents(self) -> Page:
        recipes, notes = [], []
        for path in self._files():
            data = read_file(path)
            try:
                if not is_listing(parse(data, str(path), [])):
                    recipes.append(read_recipe(data, str(path)))
            except BadRecipe as error:
                notes.append(error.text)
        return Page(tuple(recipes), notes=tuple(notes))

    def _listings(self) -> tuple[Page, ...]:
        pages = []
        for path in self._files():
            try:
                value = parse(read_file(path), str(path), [])
            except BadRecipe:
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
    try:
        return read_recipe(data, str(path)).slug
    except AgentError:
        return None
