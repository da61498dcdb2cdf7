"""A reading is a value with its time, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable
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


def split(readings: dict[str, Reading[Any]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Readings as JSON carries them: name → value or None, and for each None its reason."""
    values = {name: as_json(value_of(reading)) for name, reading in readings.items()}
    reasons = {name: reading.reason for name, reading in readings.items() if isinstance(reading, Unknown)}
    return values, reasons


def as_json(value: Any) -> Any:
    """A reading's value as JSON: objects with `to_json` by it, sequences item by item, sizes as plain numbers."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    return value
