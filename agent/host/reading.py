"""A reading is a value with its time, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from agent.clock import Instant

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Known(Generic[T_co]):
    """A value, and when it was read."""

    value: T_co
    at: Instant


@dataclass(frozen=True, slots=True)
class Unknown:
    """No value, and why: not supported, no permission, gone, timed out. Never zero and never healthy.

    `unsupported`: this device or kernel never has that value, so that asking again is of no use.
    """

    reason: str
    unsupported: bool = False


Reading: TypeAlias = Known[T] | Unknown


def value_of(reading: Reading[T]) -> T | None:
    """The value, or None where it is unknown (for outputs that leave the unknown out)."""
    return reading.value if isinstance(reading, Known) else None


def describe(reading: Reading[T], show: Callable[[T], str] = str) -> str:
    """The value as text, or `unknown (why)`."""
    return show(reading.value) if isinstance(reading, Known) else f"unknown ({reading.reason})"


def to_json(readings: Mapping[str, Reading[Any]]) -> dict[str, Any]:
    """Readings as JSON carries them: name → value or null; the reason of each null by name in `unknown`.

    `unsupported` names those of them that this device or kernel never has.
    """
    missing = {name: reading for name, reading in readings.items() if isinstance(reading, Unknown)}
    values = {name: as_json(value_of(reading)) for name, reading in readings.items()}
    return values | {
        "unknown": {name: reading.reason for name, reading in missing.items()},
        "unsupported": [name for name, reading in missing.items() if reading.unsupported],
    }


def as_json(value: Any) -> Any:
    """A reading's value as JSON: objects with `to_json` by it, sequences item by item, sizes as plain numbers."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    return value
