"""Which format a file has, by what is in it; its name says nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from agent.recipe.formats import sparkrun, vllm_project
from agent.recipe.leaves import leaves
from agent.recipe.model import Recipe
from agent.recipe.trouble import BadRecipe
from agent.settings.yaml_text import BadYaml, read_yaml

_LAUNCH = re.compile(
    r"\b(?:docker|podman|nerdctl)\b[^\n]*\s(?:run|create)\b|\b(?:vllm|sglang|trtllm-serve)\s+\S|\bllama-server\b"
    r"|\bpython3?\s+-m\s+(?:vllm|sglang|tensorrt_llm)"
)
EXPECTED = (
    "known are the JSON document of a recipe site, sparkrun's and the vLLM project's recipes, compose files, and a "
    "launch as a shell would run it"
)


def read_foreign(data: bytes, source: str, slug: str | None) -> Recipe:
    """A recipe that is no JSON. `slug` is the file's own name. Raises BadRecipe."""
    text = _text(data, source)
    if not text.strip():
        raise BadRecipe(what=source, why="it is empty")
    value = _yaml(text, source)
    digest = hashlib.sha256(data).hexdigest()
    if isinstance(value, dict):
        return _of_mapping(value, text, source, digest, slug)
    if _LAUNCH.search(text):
        return _plain("shell", text, source, digest, slug)
    raise BadRecipe(what=source, why=f"it starts no engine and is in no known format; {EXPECTED}")


def _text(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRecipe(what=source, why=f"it is no UTF-8 text (byte {error.start})") from error


def _yaml(text: str, source: str) -> Any:
    """The document; None where the text is a script, which only looks like broken YAML."""
    try:
        return read_yaml(text, source)
    except BadYaml as error:
        if _LAUNCH.search(text) and not re.search(r"^(?:services|recipe_version|meta):", text, re.MULTILINE):
            return None
        raise BadRecipe(what=source, why=str(error.details["why"])) from error


def _of_mapping(value: dict[str, Any], text: str, source: str, digest: str, slug: str | None) -> Recipe:
    if isinstance(value.get("services"), Mapping):
        return _plain("compose", text, source, digest, slug)
    for form in (sparkrun, vllm_project):
        if form.recognise(value):
            read = form.read(value, slug)
            return Recipe(
                slug=read.slug,
                title=read.title,
                source=source,
                sha256=digest,
                format=form.FORMAT,
                summary=read.summary,
                launch=read.launch,
                launch_places=read.places,
                engine=read.engine,
                stated=read.stated,
                document=value,
                leaves=tuple(leaves(value)),
            )
    keys = ", ".join(str(key) for key in list(value)[:6])
    raise BadRecipe(what=source, why=f"it is a YAML file of another kind (its keys: {keys}); {EXPECTED}")


def _plain(form: str, text: str, source: str, digest: str, slug: str | None) -> Recipe:
    """A file that is its own launch."""
    if slug is None:
        raise BadRecipe(what=source, why="a launch alone has no slug: name its file in letters, digits and dashes")
    return Recipe(slug, slug, source, digest, form, launch=(text,), launch_places=(), document={"launch": text})
