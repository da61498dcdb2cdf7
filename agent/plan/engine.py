"""What engine it is: by its launch, corrected and completed by the profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.engines.model import Command, EngineKind, EngineLaunch
from agent.engines.registry import dialect_of, engine_of
from agent.plan.gpus import Demand
from agent.plan.inputs import LocalImage
from agent.plan.model import Requirement
from agent.plan.requirements import parallel_size
from agent.plan.runtime import env_of
from agent.profile.document import Profile
from agent.settings.model import Settings

_NAMES = {
    "vllm": EngineKind.VLLM,
    "sglang": EngineKind.SGLANG,
    "llama.cpp": EngineKind.LLAMACPP,
    "llamacpp": EngineKind.LLAMACPP,
    "llama-cpp": EngineKind.LLAMACPP,
    "tensorrt-llm": EngineKind.TRTLLM,
    "trtllm": EngineKind.TRTLLM,
    "tabbyapi": EngineKind.TABBYAPI,
}
"""How documents call the engines."""
_SIZED = (EngineKind.VLLM, EngineKind.SGLANG, EngineKind.TRTLLM)
"""Engines that use exactly as many cards as their parallel sizes multiply to; others take what they see."""


@dataclass(frozen=True, slots=True)
class Stated:
    """What recipe and profile say of the engine beside its launch."""

    profile: Profile
    engine: str | None = None
    """The recipe's word for it (`engine_source.base_engine`)."""

    @property
    def kind(self) -> EngineKind | None:
        """The profile's word, else the recipe's."""
        own = self.profile.engine.kind
        return EngineKind(own.value) if own is not None else _NAMES.get((self.engine or "").lower())


def engine_in(body: Mapping[str, Any], image: LocalImage | None, stated: Stated) -> EngineLaunch | None:
    """The engine that a body starts; the image's own entrypoint counts where it is known.

    A command that no engine's own words are in is read by the flags of the engine that recipe or profile name.
    """
    entrypoint = tuple(body.get("Entrypoint") or (image.entrypoint if image else ()))
    words = (*entrypoint, *(body.get("Cmd") or (image.command if image else ())))
    command = Command(words, env_of(body), body.get("Image"))
    known, own = engine_of(command), stated.profile.engine.kind
    engine = known[1] if known is not None else None
    if stated.kind is not None and (engine is None or (own is not None and own.value != engine.kind)):
        engine = dialect_of(stated.kind).describe(command) if body else EngineLaunch(stated.kind)
    return engine if engine is None else corrected(engine, stated.profile)


def corrected(engine: EngineLaunch, profile: Profile) -> EngineLaunch:
    """The engine with what a profile says of it."""
    named = {key: getattr(profile.engine, key) for key in ("port", "health", "metrics", "served_model")}
    return replace(engine, **{key: fact.value for key, fact in named.items() if fact is not None})


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
