"""What a check found, what is needed, where the need is stated and how to mend it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """Unknown never passes silently: for a required check it refuses like a fail."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer. `found` and `need` are words that a person reads; `details` holds the numbers for a machine."""

    check: str
    level: Level
    found: str
    need: str = ""
    origin: str = ""
    hint: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    required: bool = False

    @property
    def refuses(self) -> bool:
        return self.level is Level.FAIL or (self.level is Level.UNKNOWN and self.required)

    def to_json(self) -> dict[str, Any]:
        """The finding of `preflight -o json`."""
        return {
            "check": self.check,
            "level": self.level.value,
            "found": self.found,
            "need": self.need,
            "origin": self.origin,
            "hint": self.hint,
            "details": dict(self.details),
        }


def passed(findings: tuple[Finding, ...], accepted: frozenset[str] = frozenset()) -> bool:
    """Whether nothing refuses, accepted checks apart."""
    return not any(finding.refuses and finding.check not in accepted for finding in findings)
