"""What a person may ask to be planned or deployed, and on what terms; apart, as every command knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person wants planned or deployed: a slug of the daemon's sources, or a document that the client read."""

    slug: str | None = None
    document: bytes | None = None
    source: str = ""
    """Where the client read the document."""
    sets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms it is deployed: the plan that the person saw, checks to overrule, the deployment to replace."""

    plan_id: str | None = None
    accepted: tuple[str, ...] = ()
    replaces: str | None = None
