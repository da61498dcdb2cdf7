"""The documents that deployments were made from, by the SHA-256 of their bytes: for evidence, and for people."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import structlog

from agent.errors import NotFound
from agent.plan.model import RecipeRef
from agent.settings.model import Paths

log = structlog.get_logger()


async def keep_document(paths: Paths, document: bytes) -> None:
    """One that a client sent: it is in no source and in no cache."""
    try:
        await asyncio.to_thread(write, paths.state / "recipes", document)
    except OSError as error:  # it is for evidence alone: a full disk must not keep an engine from its start
        log.warning("recipe_not_kept", reason=error.strerror or str(error))


def write(folder: Path, document: bytes) -> None:
    place = folder / f"{hashlib.sha256(document).hexdigest()}.json"
    if place.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    partial = place.with_suffix(".partial")
    partial.write_bytes(document)
    partial.replace(place)


async def document_of(paths: Paths, recipe: RecipeRef) -> bytes:
    """Out of the cache of fetched recipes, or of those that were sent. Raises NotFound."""
    return await asyncio.to_thread(read, paths, recipe)


def read(paths: Paths, recipe: RecipeRef) -> bytes:
    file = f"{recipe.sha256}.json"
    for place in (paths.state / "recipes" / file, paths.cache / "recipes" / recipe.slug / file):
        if recipe.sha256 is not None and place.is_file():
            return place.read_bytes()
    raise NotFound(what="the document of", name=recipe.slug, why="neither the cache nor the state folder has it")
