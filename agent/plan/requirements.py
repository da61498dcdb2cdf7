"""What the host must have: stated by a profile, by the document itself, or by the launch's own sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from agent.engines.model import EngineLaunch
from agent.plan.model import Requirement
from agent.profile.document import Profile
from agent.profile.fact import Fact
from agent.quantity import Bytes
from agent.recipe.model import Hardware, Recipe
from agent.recipe.weights import published

_STATED: tuple[tuple[str, str, Callable[[Any], Bytes | int | str]], ...] = (
    ("gpu.count", "gpu_count", int),
    ("gpu.model", "gpu_name", str),
    ("gpu.memory", "gpu_memory", Bytes),
    ("gpu.architecture", "compute_capability", str),
    ("gpu.busy", "gpu_memory_in_use_max", Bytes),
    ("driver.version", "driver", str),
    ("memory.total", "memory_total", Bytes),
    ("memory.available", "memory_available", Bytes),
    ("disk.free", "disk", Bytes),
    ("weights", "weights", str),
)
"""Id of the preflight check → key of the profile's `requirements`."""


def requirements_of(recipe: Recipe, profile: Profile, engine: EngineLaunch | None) -> tuple[Requirement, ...]:
    """One need an id; a profile's word wins over the document's, and both over what the launch's sizes multiply to."""
    found: dict[str, Requirement] = {}
    for source in (_profile(profile), _document(recipe), _launch(engine, profile)):
        for need in source:
            found.setdefault(need.id, need)
    order = {check: at for at, (check, _, _) in enumerate(_STATED)}
    return tuple(sorted(found.values(), key=lambda need: order.get(need.id, len(order))))


def _profile(profile: Profile) -> Iterator[Requirement]:
    for check, key, kind in _STATED:
        fact: Fact[Any] | None = getattr(profile.requirements, key)
        if fact is not None:
            words = "; ".join(words for quote in fact.quotes() for words in quote.words)
            yield Requirement(check, kind(fact.value), fact.origin(f"requirements.{key}"), words)


def _document(recipe: Recipe) -> Iterator[Requirement]:
    if len(recipe.hardware) == 1:  # several entries are several machines that it was seen on
        yield from _hardware(recipe.hardware[0])
    if recipe.ram_gb:
        origin = "recipe config.storage_requirements.ram_gb"
        yield Requirement("memory.total", Bytes.gib(recipe.ram_gb), origin, f"{recipe.ram_gb:g} GB")
    if weights := published(recipe):
        yield Requirement("weights", str(weights), f"recipe {weights.place}", weights.words)
    floor = _floor(recipe)
    if floor:
        yield Requirement("driver.version", floor, "recipe requirements.driver_floor.linux_min", floor)


def _hardware(hardware: Hardware) -> Iterator[Requirement]:
    if hardware.count:
        yield Requirement("gpu.count", hardware.count, f"recipe {hardware.origin}.device_count")
    if hardware.card:
        yield Requirement("gpu.model", hardware.card, f"recipe {hardware.origin}.card")
    if hardware.vram_gb:
        words = f"{hardware.vram_gb:g} GB"
        yield Requirement("gpu.memory", Bytes.gb(hardware.vram_gb), f"recipe {hardware.origin}.vram_gb", words)


def _floor(recipe: Recipe) -> str | None:
    stated = recipe.document.get("requirements")
    floor = stated.get("driver_floor") if isinstance(stated, dict) else None
    minimum = floor.get("linux_min") if isinstance(floor, dict) else None
    return minimum if isinstance(minimum, str) and minimum else None


def _launch(engine: EngineLaunch | None, profile: Profile) -> Iterator[Requirement]:
    cards, origin = parallel_size(engine, profile)
    if cards is not None and cards > 1:
        yield Requirement("gpu.count", cards, origin)


def parallel_size(engine: EngineLaunch | None, profile: Profile) -> tuple[int | None, str]:
    """Cards that the parallel sizes multiply to, and whose word that is; None where nobody says."""
    if engine is not None:
        sizes = f"{engine.tensor_parallel} × {engine.pipeline_parallel} × {engine.data_parallel}"
        return engine.gpus_needed, f"launch: tensor × pipeline × data parallel = {sizes}"
    serving = profile.serving
    if serving.tensor_parallel is None and serving.pipeline_parallel is None:
        return None, ""
    tensor = serving.tensor_parallel.value if serving.tensor_parallel else 1
    pipeline = serving.pipeline_parallel.value if serving.pipeline_parallel else 1
    fact = serving.tensor_parallel or serving.pipeline_parallel
    return tensor * pipeline, fact.origin("serving") if fact else ""
