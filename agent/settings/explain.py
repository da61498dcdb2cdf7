"""A validation error of pydantic as one sentence, with the nearest name for a key that does not exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

SHOWN = 3
"""Errors told in one message; the rest is counted."""


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """What is wrong with a document that should have been a `model`, by the dotted names of its keys."""
    told: dict[tuple[str | int, ...], str] = {}
    for item in error.errors(include_url=False):
        place = tuple(part for part in item["loc"] if not _of_pydantic(part))
        told.setdefault(place, _sentence(place, item["type"], item["msg"], model))
    sentences = list(told.values())[:SHOWN]
    rest = len(told) - SHOWN
    return "; ".join(sentences) + (f"; and {rest} more" if rest > 0 else "")


def _of_pydantic(part: str | int) -> bool:
    """Whether it names no key, but the form of a value that was tried, as `function-before[_seconds(), float]`.

    Of several forms the first speaks: what is wrong with it is what a person meant to write.
    """
    return isinstance(part, str) and part.endswith("]") and "[" in part


def dotted(loc: Sequence[str | int]) -> str:
    """`("a", 0, "b")` as `a[0].b`."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _sentence(loc: tuple[str | int, ...], kind: str, message: str, model: type[BaseModel]) -> str:
    if kind == "extra_forbidden":
        return _unknown(loc, model)
    plain = message.removeprefix("Value error, ").removeprefix("Input ")
    return f"{dotted(loc)} {plain}" if message.startswith("Input ") else f"{dotted(loc)}: {plain}"


def _unknown(loc: tuple[str | int, ...], model: type[BaseModel]) -> str:
    names = {name for parent in _models_at(model, loc[:-1]) for name in _names(parent)}
    return f"unknown key {dotted(loc)!r}{nearest(str(loc[-1]), names)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that does not exist: which one may be meant, else which there are."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    ending = f"did you mean {near[0]!r}?" if near else f"known here are {', '.join(names)}" if names else ""
    return f", {ending}" if ending else ""


def _models_at(model: type[BaseModel], path: Sequence[str | int]) -> list[type[BaseModel]]:
    """The models that a place of the document may be; names that are no field (keys of a dict) are passed over."""
    here = [model]
    for part in path:
        inner = [found for parent in here for found in _field_models(parent, part)]
        here = inner or here
    return here


def _field_models(model: type[BaseModel], name: str | int) -> Iterator[type[BaseModel]]:
    for field, info in model.model_fields.items():
        if name in (field, info.alias):
            yield from _inside(info.annotation)


def _inside(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _inside(part)


def _names(model: type[BaseModel]) -> Iterator[str]:
    for field, info in model.model_fields.items():
        yield info.alias or field
