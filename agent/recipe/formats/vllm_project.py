"""Recipes of the vLLM project: a model, its arguments by feature, and how hardware and strategy change them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent.recipe.formats.reading import Reading, count, fact, mapping, slug_of, text

FORMAT = "vllm-recipes"
_TP = ("strategy_overrides.single_node_tp.tp", "variants.default.tp")


def recognise(value: Mapping[str, Any]) -> bool:
    """`model.model_id` below a `meta` is theirs alone."""
    return isinstance(value.get("meta"), Mapping) and "model_id" in mapping(value.get("model"))


def read(value: Mapping[str, Any], slug: str | None) -> Reading:
    """`vllm serve` with the base arguments and every feature that is not opt-in; each word says where it is from."""
    meta = mapping(value.get("meta"))
    return Reading(
        slug=slug_of(meta.get("slug"), slug, meta.get("title")),
        title=text(meta.get("title")) or text(mapping(value.get("model")).get("model_id")),
        summary=text(meta.get("description")),
        engine="vllm",
        stated=_stated(value),
    )


def _stated(value: Mapping[str, Any]) -> dict[str, Any]:
    model = mapping(value.get("model"))
    stated: dict[str, Any] = {
        "engine": {"kind": fact("vllm", "model.model_id")},
        "launch": {"line": list(_line(value))},
        "env": {str(name): fact(text(raw), f"model.base_env.{name}") for name, raw in _env(model) if text(raw)},
        "requirements": {"weights": fact(text(model.get("model_id")), "model.model_id")},
        "notes": list(_notes(value)),
    }
    image, place = _image(model)
    if image:
        stated["image"] = {"reference": fact(image, place)}
    return stated


def _env(model: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from mapping(model.get("base_env")).items()


def _line(value: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    model = mapping(value.get("model"))
    yield {"argv": ["vllm", "serve", text(model.get("model_id"))], "from": "model.model_id"}
    yield from _words(model.get("base_args"), "model.base_args")
    optional = [text(name) for name in _list(value.get("opt_in_features"))]
    for name, feature in mapping(value.get("features")).items():
        if name not in optional:
            yield from _words(mapping(feature).get("args"), f"features.{name}.args")
    size, place = _tensor_parallel(value)
    if size is not None and size > 1:
        yield {"argv": ["--tensor-parallel-size", str(size)], "from": place}


def _words(arguments: Any, place: str) -> Iterator[dict[str, Any]]:
    """Each argument by its own place, so that none of them counts as left out."""
    words = [text(word) for word in _list(arguments)]
    for at, word in enumerate(words):
        yield {"argv": [word], "from": f"{place}[{at}]"}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _tensor_parallel(value: Mapping[str, Any]) -> tuple[int | None, str]:
    for place in _TP:
        inner: Any = value
        for part in place.split("."):
            inner = mapping(inner).get(part)
        if count(inner) is not None:
            return count(inner), place
    return None, ""


def _image(model: Mapping[str, Any]) -> tuple[str, str]:
    """The image; of several, NVIDIA's."""
    stated = model.get("docker_image")
    if isinstance(stated, Mapping):
        return text(stated.get("nvidia")), "model.docker_image.nvidia"
    return text(stated), "model.docker_image"


def _notes(value: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    least = text(mapping(value.get("model")).get("min_vllm_version"))
    if least:
        yield {"text": f"the recipe asks for vLLM {least} or newer", "from": "model.min_vllm_version"}
    if _tensor_parallel(value)[0] is None:
        words = "the recipe's tensor parallel size is the number of cards at deployment, which no argument states"
        yield {"text": f"{words}: add --tensor-parallel-size to launch.arguments where one card is too small"}
    overrides = [str(name) for name in mapping(value.get("hardware_overrides"))]
    if overrides:
        words = f"arguments for single kinds of cards are not applied ({', '.join(overrides)})"
        yield {"text": f"{words}: state those of yours in launch.arguments"}
