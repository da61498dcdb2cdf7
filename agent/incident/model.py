"""An incident: what was judged, on what evidence, and what could not be had."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.clock import timestamp

Gather = Callable[[], Awaitable[str | bytes]]
"""Gives one piece of evidence; raises or takes too long where it cannot."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is known before any evidence is gathered."""

    slug: str
    kind: str
    why: str
    at: float
    generation: int
    container: str | None
    plan_id: str
    verdict: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Sorts by time, names the recipe and the kind: `20261130T031502Z-<slug>-<kind>-g3`."""
        stamp = timestamp(self.at).split(".")[0].replace("-", "").replace(":", "") + "Z"
        return f"{stamp}-{self.slug}-{self.kind or 'fault'}-g{self.generation}"


@dataclass(frozen=True, slots=True)
class Incident:
    """A kept incident as the API lists it. `evidence` maps a file to its size in bytes, `missing` a name to why not."""

    id: str
    slug: str
    kind: str
    why: str
    at: float
    generation: int
    seconds: float
    evidence: Mapping[str, int]
    missing: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "slug": self.slug,
            "kind": self.kind,
            "why": self.why,
            "at": timestamp(self.at),
            "generation": self.generation,
            "seconds": round(self.seconds, 3),
            "evidence": dict(self.evidence),
            "missing": dict(self.missing),
        }
