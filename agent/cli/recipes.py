"""agentctl recipes: search the sources, show one recipe, fetch one into the cache. Needs no daemon."""

from __future__ import annotations

from agent.cli.output import coloured, print_json, table
from agent.errors import UsageError
from agent.quantity import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from agent.recipe.library import Found, Library
    from agent.recipe.model import Recipe
    from agent.recipe.search import Hit


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", metavar="search|show|fetch", choices=("search", "show", "fetch"), help="what to do")
    parser.add_argument("what", nargs="*", metavar="TEXT | SLUG | FILE | URL", help="words, or which recipe")
    filters = parser.add_argument_group("search")
    filters.add_argument("--engine", help="vllm, sglang, llamacpp, …")
    filters.add_argument("--card", help="a card, such as cmp-170hx")
    filters.add_argument("--vram", type=float, metavar="GB", help="memory of one card at most")
    filters.add_argument("--max-gpus", type=int, metavar="N", help="cards at most")


def run(arguments: Namespace) -> int:
    import asyncio

    if arguments.action != "search" and len(arguments.what) != 1:
        raise UsageError(why=f"recipes {arguments.action} takes one recipe")
    return asyncio.run(act(arguments))


async def act(arguments: Namespace) -> int:
    from agent.cli.site import settings_of
    from agent.wiring import Parts

    parts = Parts(settings_of(arguments))
    try:
        if arguments.action == "search":
            return await search(arguments, parts.library)
        if arguments.action == "fetch":
            return show_found(arguments, await parts.library.fetch(arguments.what[0]), fetched=True)
        return show_found(arguments, await one(arguments, parts.library), fetched=False)
    finally:
        await parts.close()


async def one(arguments: Namespace, library: Library) -> Found:
    """A file is read, a slug is looked up."""
    from agent.cli.wanted import is_file, read_document
    from agent.recipe.library import Found
    from agent.recipe.read import read_recipe

    word = arguments.what[0]
    if is_file(word) and not word.startswith(("http://", "https://")):
        return Found(read_recipe(read_document(word), word))
    return await library.get(library.slug_of(word))


async def search(arguments: Namespace, library: Library) -> int:
    from agent.recipe.listing import Query

    text = " ".join(arguments.what) or None
    query = Query(text, arguments.engine, arguments.card, arguments.vram, arguments.max_gpus)
    results = await library.search(query)
    if arguments.json:
        print_json({"recipes": [hit_json(hit) for hit in results.hits], "notes": list(results.notes)})
        return 0
    rows = [row(hit) for hit in results.hits]
    if rows:
        print(table(rows, ("SLUG", "CARDS", "ENGINE", "NOT STATED"), coloured(arguments)))
    elif not arguments.quiet:
        print("nothing fits" + (" in what could be read" if results.notes else ""))
    notes(arguments, results.notes)
    return 0


def row(hit: Hit) -> tuple[str, str, str, str]:
    cards = ", ".join(f"{one.count or '?'}x {one.card or 'unknown'}" for one in hit.recipe.hardware)
    return hit.recipe.slug, cards or "unknown", hit.recipe.engine or "unknown", ", ".join(hit.unknown)


def hit_json(hit: Hit) -> dict[str, Any]:
    return {**recipe_json(hit.recipe), "unknown": list(hit.unknown)}


def recipe_json(recipe: Recipe) -> dict[str, Any]:
    return {
        "slug": recipe.slug,
        "title": recipe.title,
        "summary": recipe.summary,
        "source": recipe.source,
        "sha256": recipe.sha256,
        "revision": recipe.revision.number,
        "content_hash": recipe.revision.content_hash,
        "engine": recipe.engine,
        "hardware": [{"card": one.card, "count": one.count, "vram_gb": one.vram_gb} for one in recipe.hardware],
        "max_context": recipe.max_context,
        "tags": list(recipe.tags),
        "updated_at": recipe.updated_at,
    }


def show_found(arguments: Namespace, found: Found, *, fetched: bool) -> int:
    recipe = found.recipe
    if arguments.json:
        changes = [str(change) for change in found.difference.changes]
        print_json({**recipe_json(recipe), "notes": list(found.notes), "changes": changes, "age_s": found.age_s})
        return 0
    print(f"{recipe.slug}\n  {recipe.title}")
    for line in described(recipe):
        print(f"  {line}")
    for change in found.difference.changes if fetched else ():
        print(f"  changed: {change}")
    notes(arguments, found.notes)
    return 0


def described(recipe: Recipe) -> list[str]:
    """The lines that a person wants first; what is not stated is left out."""
    lines = [f"source    {recipe.source}"]
    if recipe.sha256:
        lines.append(f"sha256    {recipe.sha256}")
    lines += [f"revision  {recipe.revision.number} ({recipe.revision.content_hash})"] if recipe.revision.number else []
    lines += [f"engine    {recipe.engine}"] if recipe.engine else []
    lines += [f"hardware  {one.count or '?'}x {one.card}, {one.vram_gb or '?'} GB each" for one in recipe.hardware]
    lines += [f"context   {counted(recipe.max_context, 'token')}"] if recipe.max_context else []
    lines += [f"RAM       {recipe.ram_gb:g} GB"] if recipe.ram_gb else []
    lines += [f"summary   {recipe.summary}"] if recipe.summary else []
    return lines


def notes(arguments: Namespace, texts: tuple[str, ...]) -> None:
    import sys

    if not arguments.quiet:
        for text in texts:
            print(f"note: {text}", file=sys.stderr)
