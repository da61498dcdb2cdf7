"""The identity of a plan: a hash of what decides what will run, the same on every host and in any order of keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.profile.document import Profile
from agent.recipe.model import Recipe

DIGITS = 16


@dataclass(frozen=True, slots=True)
class Deciding:
    """What a plan's identity rests on. What was merely found here (an image that is local, an age) is no part of it."""

    recipe: Recipe
    profile: Profile
    runtime: str
    gpus: tuple[str, ...]
    container: Mapping[str, Any] | None
    steps: tuple[Mapping[str, Any], ...] = ()
    site: Mapping[str, Any] = field(default_factory=dict)


def plan_id(deciding: Deciding) -> str:
    """Sixteen hexadecimal digits."""
    recipe = deciding.recipe
    facts = {
        "recipe": {"slug": recipe.slug, "hash": recipe.revision.content_hash, "facts": recipe.deciding},
        "profile": deciding.profile.model_dump(mode="json", exclude_defaults=True),
        "runtime": deciding.runtime,
        "gpus": deciding.gpus,
        "container": deciding.container,
        "steps": deciding.steps,
        "site": deciding.site,
    }
    return hashlib.sha256(canonical(facts).encode()).hexdigest()[:DIGITS]


def canonical(value: Any) -> str:
    """JSON with sorted keys, no spaces, and numbers that are equal written equally (`64` and `64.0`)."""
    return json.dumps(_even(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _even(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _even(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_even(item) for item in value]
    return value
