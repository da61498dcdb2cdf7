"""What engine it is: by its launch, corrected and completed by the profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agent.engines.model import Command, EngineKind, EngineLaunch
from agent.engines.registry import engine_of
from agent.plan.gpus import Demand
from agent.plan.inputs import LocalImage
from agent.plan.model import Requirement
from agent.plan.requirements import parallel_size
from agent.plan.runtime import env_of
from agent.profile.document import Profile
from agent.settings.model import Settings

_SIZED = (EngineKind.VLLM, EngineKind.SGLANG, EngineKind.TRTLLM)
"""Engines that use exactly as many cards as their parallel sizes multiply to; others take what they see."""


def engine_in(body: Mapping[str, Any], image: LocalImage | None, profile: Profile) -> EngineLaunch | None:
    """The engine that a body starts; the image's own entrypoint counts where it is known."""
    entrypoint = tuple(body.get("Entrypoint") or (image.entrypoint if image else ()))
    words = (*entrypoint, *(body.get("Cmd") or (image.command if image else ())))
    known = engine_of(Command(words, env_of(body), body.get("Image")))
    return corrected(known[1] if known else None, profile)


def corrected(engine: EngineLaunch | None, profile: Profile) -> EngineLaunch | None:
    """The engine with what a profile says of it; without a launch, what the profile says alone."""
    stated = profile.engine
    if engine is None and stated.kind is None:
        return None
    base = engine or EngineLaunch(EngineKind(stated.kind.value if stated.kind else EngineKind.OPENAI))
    if stated.kind is not None and stated.kind.value != base.kind:
        base = replace(base, kind=EngineKind(stated.kind.value))
    named = {key: getattr(stated, key) for key in ("port", "health", "metrics", "served_model")}
    return replace(base, **{key: fact.value for key, fact in named.items() if fact is not None})


def demand_of(
    engine: EngineLaunch | None, asked: int | None, profile: Profile, settings: Settings, needs: tuple[Requirement, ...]
) -> Demand:
    """How many cards, by whose word, and the site's choice. `asked`: the launch's own number, 0 for none at all."""
    counted = next((need for need in needs if need.id == "gpu.count"), None)
    if asked == 0 or (counted is not None and counted.need == 0):
        return Demand(0, "the launch asks for no card" if asked == 0 else counted.origin if counted else "")
    chosen, chosen_by = settings.gpus, "agent.yaml gpus"
    if profile.gpus is not None:
        chosen, chosen_by = profile.gpus.value, profile.gpus.origin("gpus")
    size, origin = parallel_size(engine, profile)
    sized = engine is None or engine.kind in _SIZED
    if sized and size is not None and size >= (asked or 0):
        return Demand(size, origin, chosen, chosen_by)
    if asked is not None:
        return Demand(asked, f"the launch asks for {asked}", chosen, chosen_by)
    if counted is not None:
        return Demand(int(counted.need), counted.origin, chosen, chosen_by)
    return Demand(None, "nobody says how many", chosen, chosen_by)


def disagreements(engine: EngineLaunch | None, profile: Profile) -> Iterator[str]:
    """Where the launch's flags are not what the recipe says in words."""
    if engine is None:
        return
    flags = {
        "tensor_parallel": engine.tensor_parallel,
        "pipeline_parallel": engine.pipeline_parallel,
        "max_context": engine.max_model_len,
        "speculative_tokens": engine.speculative_tokens,
    }
    for key, flag in flags.items():
        fact = getattr(profile.serving, key)
        if fact is not None and flag is not None and fact.value != flag:
            words = key.replace("_", " ")
            yield f"the launch's {words} is {flag:,}; {fact.origin(f'serving.{key}')} says {fact.value:,}"
