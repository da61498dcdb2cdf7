"""Dataclasses from JSON, every key known and every value of its type; and back, without what is as by default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from agent.errors import InvalidInput
from agent.samples.model import Missed

T = TypeVar("T")


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def build(kind: type[T], value: Any) -> T:
    """A dataclass from JSON: every key known, every value of its type."""
    stated = mapping(value, kind.__name__)
    refuse_unknown(stated, {f.name for f in fields(kind)}, kind.__name__)  # type: ignore[arg-type]
    return one(kind, stated)


def one(kind: type[T], value: Any) -> T:
    if kind not in _ADAPTERS:  # a third of a millisecond each
        _ADAPTERS[kind] = TypeAdapter(kind)
    try:
        built: T = _ADAPTERS[kind].validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or kind.__name__
        raise InvalidInput(f"{where}: {first['msg']}, not {first['input']!r}") from error
    return built


def refuse_unknown(value: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    if unknown := sorted(set(value) - set(known)):
        raise InvalidInput(f"{what} has no {unknown[0]!r}; there are: {', '.join(sorted(known))}")


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{what} is no object: {value!r}"[:200])
    return value


def listed(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidInput(f"{what} is no list: {value!r}"[:200])
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
