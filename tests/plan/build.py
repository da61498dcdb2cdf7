"""Recipes, sites and cards for the tests of plans: small documents of our own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.clock import Instant
from agent.host.gpu import ComputeCapability, Gpu, Identity
from agent.host.reading import Known
from agent.plan.compile import compile_plan
from agent.plan.inputs import Inputs, LocalImage
from agent.plan.model import Plan
from agent.profile.layers import validate
from agent.quantity import Bytes
from agent.recipe.model import Recipe
from agent.recipe.read import read_recipe
from agent.settings.model import Settings

FIXTURES = Path(__file__).with_name("fixtures")
NOW = Instant(1.0, 1_800_000_000.0)
CARD_MEMORY = Bytes.gib(63.5)


def small() -> dict[str, Any]:
    """A recipe of two cards in the form of a recipe site's document."""
    document: dict[str, Any] = json.loads((FIXTURES / "small.json").read_text())
    return document


def recipe(launch: Any = None, **changes: Any) -> Recipe:
    """The small recipe; `launch` replaces its launch, keywords its top-level keys."""
    document = small() | changes
    if launch is not None:
        document["config"] = {**document["config"], "launch": launch}
    return read_recipe(json.dumps(document).encode(), "the recipe's file")


def bare(launch: Any) -> Recipe:
    """A document with a slug and a launch, and nothing else."""
    return read_recipe(json.dumps({"slug": "bare", "config": {"launch": launch}}).encode(), "the recipe's file")


def settings(**keys: Any) -> Settings:
    """A site file; the variables of the small recipe are in it unless `variables` says otherwise."""
    return Settings.model_validate({"variables": {"MODELS": "/srv/models", "CACHE": "/srv/cache"}} | keys)


def card(index: int, memory: Bytes = CARD_MEMORY, capability: tuple[int, int] = (8, 0), name: str = "CARD 64") -> Gpu:
    """A card that answers."""
    identity = Identity(index, f"GPU-{index:04d}", f"00000000:{index + 1:02X}:00.0", name)
    return replace(
        Gpu.gone(identity, "not read in this test"),
        lost=None,
        memory_total=Known(memory, NOW),
        compute_capability=Known(ComputeCapability(*capability), NOW),
    )


def cards(count: int) -> Known[tuple[Gpu, ...]]:
    """So many equal cards."""
    return Known(tuple(card(index) for index in range(count)), NOW)


def plan(
    of: Recipe | None = None,
    *,
    site: Mapping[str, Any] | None = None,
    shipped: Mapping[str, Any] | None = None,
    images: Mapping[str, LocalImage | None] | None = None,
    **inputs: Any,
) -> Plan:
    """A plan. `site` and `shipped` are profiles as YAML would state them; other keywords are those of Inputs."""
    named: dict[str, Any] = {"settings": settings(), **inputs}
    if site is not None:
        named["site"] = validate(site, "the site profile")
    if shipped is not None:
        named["shipped"] = validate(shipped, "the shipped profile")
    return compile_plan(Inputs(of or recipe(), images=images, **named))


def host_config(made: Plan) -> dict[str, Any]:
    """HostConfig of a plan's container."""
    assert made.container is not None
    config: dict[str, Any] = made.container.body["HostConfig"]
    return config
