"""What a foreign format's reader hands back, and how it states facts with their place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_NOT_SLUG = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Reading:
    """`launch` is shell text; `stated` are facts in the form of a profile, each with the field it was read from."""

    slug: str
    title: str
    summary: str = ""
    launch: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    """The fields that the launch is made of."""
    engine: str | None = None
    stated: Mapping[str, Any] = field(default_factory=dict)


def fact(value: Any, place: str) -> dict[str, Any]:
    """A value with the field of the file that says it."""
    return {"value": value, "from": place}


def slug_of(*names: Any) -> str:
    """The first name that there is, with what no slug may hold as dashes."""
    first = next((str(name) for name in names if isinstance(name, str | int) and str(name).strip()), "recipe")
    return _NOT_SLUG.sub("-", first.rpartition("/")[2]).strip("-.")[:120] or "recipe"


def text(value: Any) -> str:
    """A plain value as text; anything else as nothing."""
    return str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def mapping(value: Any) -> Mapping[str, Any]:
    """A mapping, or an empty one where there is something else."""
    return value if isinstance(value, Mapping) else {}


def count(value: Any) -> int | None:
    """A whole number above zero, as number or text."""
    digits = text(value)
    return int(digits) if digits.isdecimal() and int(digits[:9]) > 0 else None
