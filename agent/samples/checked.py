"""Dataclasses from JSON, every key known and every value of its type; and back, without what is as by default."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from agent.errors import InvalidInput
from agent.samples.model import Missed

T = TypeVar("T")


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}
_WANTS: dict[Any, dict[str, str]] = {}
SHOWN = 60
"""Letters of a value that an error cites; a longer one is told by its kind."""


def build(kind: type[T], value: Any) -> T:
    """A dataclass from JSON: every key known, every value of its type."""
    stated = mapping(value, kind.__name__)
    known = wants(kind)
    refuse_unknown(stated, known, kind.__name__)
    for name, value in stated.items():
        if wanted := known[name]:
            refuse_words(value, wanted, name)
    return one(kind, stated)


def wants(kind: type[Any]) -> dict[str, str]:
    """A dataclass's fields, each with the word for the numbers that it takes."""
    if kind not in _WANTS:
        _WANTS[kind] = {name: numeric(hint) for name, hint in get_type_hints(kind).items()}
    return _WANTS[kind]


def one(kind: type[T], value: Any, key: str = "") -> T:
    if kind in (int, float):
        refuse_words(value, "an integer" if kind is int else "a number", key)
    if kind not in _ADAPTERS:  # a third of a millisecond each
        _ADAPTERS[kind] = TypeAdapter(kind)
    try:
        built: T = _ADAPTERS[kind].validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or key or kind.__name__
        raise InvalidInput(f"{where}: {first['msg']}, not {said(first['input'])}") from error
    return built


def numeric(hint: Any) -> str:
    """The word for what a field takes, empty where it takes anything but numbers."""
    kinds = {kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)}
    return {frozenset({int}): "an integer"}.get(frozenset(kinds), "a number" if kinds <= {int, float} else "")


def refuse_words(value: Any, wanted: str, key: str) -> None:
    """`true` and `"1"` are no numbers, though they could be taken for some."""
    if isinstance(value, bool | str):
        raise InvalidInput(f"{key or 'a value'}: it should be {wanted}, not {said(value)}")


def said(value: Any) -> str:
    """A value in an error's sentence: as it is where it is short, else what it is."""
    if isinstance(value, str) and len(value) > SHOWN:
        return f"a text of {len(value):,} characters"
    if isinstance(value, Mapping | list | tuple):
        return f"{'an object' if isinstance(value, Mapping) else 'a list'} of {len(value):,}"
    return repr(value)[: SHOWN + 20]


def refuse_unknown(value: Mapping[str, Any], known: Collection[str], what: str) -> None:
    if unknown := [key for key in value if key not in known]:
        key = str(min(unknown))
        named = repr(key) if len(key) <= SHOWN else f"key of {len(key):,} characters"
        raise InvalidInput(f"{what} has no {named}; there are: {', '.join(sorted(known))}")


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{what} is no object: {said(value)}")
    return value


def listed(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidInput(f"{what} is no list: {said(value)}")
    return value


def slim(value: Any) -> dict[str, Any]:
    """A dataclass without the fields that have their default."""
    return {
        f.name: written(item)
        for f in fields(value)
        if not (item := getattr(value, f.name)) == default_of(f)  # noqa: SIM201  (NaN is told as it is)
    }


def default_of(of: Field[Any]) -> Any:
    return of.default_factory() if of.default_factory is not MISSING else of.default


def written(value: Any) -> Any:
    if isinstance(value, Missed):
        return {"missed": value.kind.value, "why": value.why}
    if is_dataclass(value):
        return slim(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): written(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [written(item) for item in value]
    return value
