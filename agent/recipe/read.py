"""From bytes to a Recipe: lossless (what is not understood is kept), tolerant (an odd part costs only itself)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from agent.recipe.document import Document
from agent.recipe.formats.detect import read_foreign
from agent.recipe.jsontext import MAX_BYTES, parse
from agent.recipe.leaves import leaves
from agent.recipe.model import Hardware, Model, Recipe, Revision
from agent.recipe.points import points
from agent.recipe.trouble import BadRecipe

SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_ESCAPE = re.compile(r"\\x\{([0-9A-Fa-f]{1,6})\}")


def read_recipe(data: bytes, source: str, fallback_slug: str | None = None) -> Recipe:
    """A recipe in any known format. `fallback_slug` (a file's name) serves where it has no slug. Raises BadRecipe."""
    if not is_json(data):
        fallback = fallback_slug or PurePosixPath(source).stem
        return read_foreign(data, source, fallback if SLUG.fullmatch(fallback) else None)
    notes: list[str] = []
    value = parse(data, source, notes)
    if not isinstance(value, dict):
        raise BadRecipe(what=source, why="it is no JSON object")
    if is_listing(value):
        raise BadRecipe(what=source, why="it is a listing of several recipes: name one of them by its slug")
    if value.get("slug") in (None, "") and fallback_slug:
        notes.append("it has no slug; the name of its file stands for it")
        value = value | {"slug": fallback_slug}
    return build(value, source, hashlib.sha256(data).hexdigest(), notes)


def is_json(data: bytes) -> bool:
    """Whether a file starts as a JSON document does; text too large for a recipe is left to the JSON reader to say."""
    return len(data) > MAX_BYTES or data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def is_listing(value: Any) -> bool:
    """Whether a document is a page of a listing (`{"meta": …, "recipes": [entry, …]}`)."""
    return isinstance(value, Mapping) and isinstance(value.get("recipes"), list) and "slug" not in value


def build(value: dict[str, Any], source: str, sha256: str | None, notes: list[str]) -> Recipe:
    """The Recipe of a parsed document or listing entry."""
    document = _validate(value, source, notes)
    config, engine = document.config, document.engine_source
    storage = config.storage_requirements if config else None
    return Recipe(
        slug=_slug(document.slug, source),
        title=plain_title(document.title or document.slug),
        source=source,
        sha256=sha256,
        summary=document.summary or "",
        tier=document.tier,
        revision=_revision(document),
        updated_at=document.updated_at,
        launch=tuple((config.launch if config else None) or ()),
        engine=engine.base_engine if engine else None,
        base_image=engine.image_digest if engine else None,
        generation=document.generation,
        tags=tuple(tag for tag in document.tags if tag),
        models=tuple(Model(part.name, part.hf_repo, part.quant) for part in document.models if part),
        hardware=_hardware(document),
        max_context=(config.max_context_len if config else None) or None,
        ram_gb=(storage.ram_gb if storage else None) or None,
        points=points(document, notes),
        leaves=tuple(leaves(value)),
        document=value,
        notes=tuple(dict.fromkeys(notes)),
    )


def plain_title(text: str) -> str:
    r"""A title with the escapes that some carry (`\x{2014}`) as the characters that were meant."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if int(match[1], 16) <= 0x10FFFF else match[0], text)


def _validate(value: dict[str, Any], source: str, notes: list[str]) -> Document:
    try:
        return Document.model_validate(value, context=notes)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        why = "it has no slug" if first["loc"] == ("slug",) else f"{first['loc']}: {first['msg']}"
        raise BadRecipe(what=source, why=why) from error
    except RecursionError as error:
        raise BadRecipe(what=source, why="it is nested too deeply") from error


def _slug(text: str, source: str) -> str:
    """A slug names files, labels and containers: a path or a space in it is an attack or an accident."""
    if not SLUG.fullmatch(text):
        raise BadRecipe(what=source, why=f"{text[:80]!r} is no slug (letters, digits, dots and dashes)")
    return text


def _revision(document: Document) -> Revision:
    part = document.revision
    if part is None:  # an entry of a listing states the two hashes itself
        return Revision(content_hash=document.content_hash, commit=document.commit_sha)
    return Revision(part.no, part.content_hash, part.commit_sha, part.created_at)


def _hardware(document: Document) -> tuple[Hardware, ...]:
    return tuple(
        Hardware(part.card, part.vendor, part.vram_gb or None, part.device_count or None, f"hardware[{at}]")
        for at, part in enumerate(document.hardware)
        if part
    )
