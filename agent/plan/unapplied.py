"""What nothing acts on: every text of the document, or every sentence of it, that no value of the plan comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from pydantic import BaseModel

from agent.plan.hide import mask
from agent.plan.model import Unapplied
from agent.plan.secrets import PREFIX, is_secret, is_value
from agent.plan.sentences import untouched
from agent.profile.document import Profile
from agent.profile.fact import Quote, Stated
from agent.recipe.model import Leaf, Recipe
from agent.recipe.weights import published

_ACTED = re.compile(
    r"slug|title|revision\.content_hash|content_hash|hardware\[\d+\]\.card|engine_source\.base_engine"
    r"|perf_points\[\d+\]\.notes|performance\[\d+\]\.metrics\.points\[\d+\]\.notes"
    r"|requirements\.driver_floor\.linux_min|name|description|metadata\.description|meta\.(?:slug|title|description)"
)
"""Places that the plan itself acts on or shows: identity, the cards' name, the notes of claims, the driver's floor."""

_WHY: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), why)
    for pattern, why in (
        (r"credit|author|uploaded_by|license", "says whose work it is"),
        (r"links|agent\.|speeds|aa\b|aa\.", "belongs to the site that publishes it"),
        (r"(revision\.)?(created_at|updated_at|commit_sha)|tier|generation|tags|tasks|models", "describes the recipe"),
        (r"config\.launch", "the launch that is used stands in the profile"),
        (r".*claimed_by", "says who measured"),
    )
)
_INDEX = re.compile(r"\[\d+\]")
_PROSE = "prose: no value of the plan was read from it"
_WORD = "no value of the plan was read from it"
_SENTENCE = 4
"""Words from which on a text is prose and not a name."""


@dataclass(frozen=True)
class Launched:
    """What of the recipe's own launch runs: whole fields, or, of lines, those that hold one of `texts`."""

    places: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @cached_property
    def lines(self) -> frozenset[str]:
        """A command may go on over several lines."""
        return frozenset(line.strip() for text in self.texts for line in text.splitlines())

    def holds(self, leaf: Leaf) -> bool:
        """Whether a text is part of what runs."""
        if any(leaf.path == place or leaf.path.startswith((f"{place}[", f"{place}.")) for place in self.places):
            return True
        if not leaf.path.startswith("config.launch"):
            return False
        return leaf.text.strip() in self.lines or any(text in leaf.text for text in self.texts if text)


def unapplied(recipe: Recipe, profile: Profile, launched: Launched, env: Mapping[str, str]) -> tuple[Unapplied, ...]:
    """One entry a text, or a sentence where a fact was taken from another part of it. `env`: the variables set."""
    quoted = quotes_of(profile) | weights_quoted(recipe)
    found: list[Unapplied] = []
    for leaf in recipe.leaves:
        shape = _INDEX.sub("[0]", leaf.path)
        why = _reason(shape)
        if why is None or launched.holds(leaf):
            continue
        left, kind = _left(leaf, quoted.get(leaf.path), env), why or _kind(leaf.text)
        found.extend(Unapplied(_shown(shape, text), kind, leaf.path) for text in left)
    return tuple(found)


def _shown(shape: str, text: str) -> str:
    """Without secrets: those within the text, and the text itself where its key says that it is one."""
    key = _secret_key(shape)
    return f"{PREFIX}{key}" if key and is_value(text) else mask(text)


@lru_cache(maxsize=4096)
def _secret_key(shape: str) -> str:
    """The last key of a place where its name says that a secret stands there, else nothing."""
    key = _INDEX.sub("", shape).rpartition(".")[2].replace("-", "_")
    return key if is_secret(key) else ""


def weights_quoted(recipe: Recipe) -> dict[str, list[Quote]]:
    """What of an artifact says where the weights are: its pointer, and of its pin the commit."""
    weights = published(recipe)
    if weights is None:
        return {}
    words: dict[str, tuple[str, ...]] = dict.fromkeys(("kind", "pointer_type", "pointer"), ())
    if weights.commit:
        words["pin"] = (weights.commit,)
    paths = {f"{weights.place}.{name}": said for name, said in words.items()}
    return {path: [Quote.model_validate({"from": path, "words": said})] for path, said in paths.items()}


def quotes_of(profile: Profile) -> dict[str, list[Quote]]:
    """Every quote of a profile by the place that it quotes."""
    found: dict[str, list[Quote]] = {}
    for quote in _quotes(profile):
        found.setdefault(quote.path, []).append(quote)
    return found


def _quotes(value: Any) -> Iterator[Quote]:
    if isinstance(value, Stated):
        yield from value.quotes()
    if isinstance(value, BaseModel):
        for name in value.model_fields_set:
            yield from _quotes(getattr(value, name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _quotes(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from _quotes(item)


def _left(leaf: Leaf, quotes: list[Quote] | None, env: Mapping[str, str]) -> Iterator[str]:
    words = [text for quote in quotes or () for text in quote.words]
    if quotes and any(not quote.words for quote in quotes):
        return  # the whole text was meant
    if leaf.path == "config.runtime.env":
        words += [f"{name}={value}" for name, value in env.items() if f"{name}={value}" in leaf.text]
    if words:
        yield from untouched(leaf.text, words)
    else:
        yield leaf.text


@lru_cache(maxsize=4096)
def _reason(shape: str) -> str | None:
    """Why a place of this shape is left out: None where it is acted on, empty where its text must be looked at."""
    if _ACTED.fullmatch(shape):
        return None
    return next((why for pattern, why in _WHY if pattern.match(shape)), "")


def _kind(text: str) -> str:
    return _PROSE if len(text.split(maxsplit=_SENTENCE)) >= _SENTENCE else _WORD
