"""Everything that a plan is made from. Nothing else is asked: no clock, no disk, no environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.host.gpu import Gpu
from agent.host.reading import Reading, Unknown
from agent.profile.document import Profile
from agent.recipe.model import Recipe
from agent.settings.model import Settings

NOT_ASKED = Unknown("nobody looked")


@dataclass(frozen=True, slots=True)
class LocalImage:
    """An image that is on this host, with the entrypoint that it brings."""

    digest: str | None = None
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inputs:
    """The recipe, its profiles, the site and the host's facts.

    `images` maps a reference to what is here under it, None where nothing is; None instead of the mapping is "not
    known". `runtimes` are those that answer (`docker`, `process`), None is "not known". `learned` is what this engine
    measured on this host. `notes` are sentences on where the recipe came from.
    """

    recipe: Recipe
    settings: Settings
    shipped: Profile | None = None
    site: Profile | None = None
    sets: Mapping[str, str] = field(default_factory=dict)
    gpus: Reading[tuple[Gpu, ...]] = NOT_ASKED
    images: Mapping[str, LocalImage | None] | None = None
    runtimes: frozenset[str] | None = None
    learned: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
