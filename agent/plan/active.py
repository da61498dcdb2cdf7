"""How many parameters one token passes: what bounds the rates that cards can reach (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.engines.model import EngineLaunch
from agent.plan.model import ActiveParameters
from agent.profile.document import Profile

_NAMED = re.compile(
    r"(?<![A-Za-z0-9.])\d+(?:\.\d+)?[BT]-A(?P<count>\d{1,5}(?:\.\d{1,5})?)B(?![A-Za-z0-9])", re.IGNORECASE
)
"""`Qwen3-235B-A22B`: 235 billion parameters, 22 of them for a token, as the names of these models say it."""


def active_of(profile: Profile, engine: EngineLaunch | None) -> ActiveParameters | None:
    """What a profile states, else what the model's own name says; None where neither does."""
    stated = profile.serving.active_parameters
    if stated is not None:
        return ActiveParameters(stated.value, stated.origin("serving.active_parameters"))
    for place, name in _names(profile, engine):
        if (found := _NAMED.search(name)) is not None and (count := float(found["count"])) > 0:
            return ActiveParameters(count * 1e9, f"the name {name} ({place})")
    return None


def _names(profile: Profile, engine: EngineLaunch | None) -> Iterator[tuple[str, str]]:
    if engine is not None and engine.model:
        yield "the launch's model", engine.model
    if profile.requirements.weights is not None:
        yield "requirements.weights", profile.requirements.weights.value
    if engine is not None and engine.served_model:
        yield "the name that requests use", engine.served_model
