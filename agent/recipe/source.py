"""The ports: where recipes come from, and where what was fetched is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agent.recipe.listing import Page, Query
from agent.recipe.model import Recipe


@dataclass(frozen=True, slots=True)
class Fetched:
    """A document's bytes as a source gave them, with what lets the next request be conditional."""

    data: bytes
    source: str
    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The source says that the copy we named is still its own."""


@dataclass(frozen=True, slots=True)
class Pin:
    """What is kept of a recipe. Times are seconds since the epoch; `checked_at` is the last word of its source."""

    slug: str
    sha256: str
    source: str
    fetched_at: float
    checked_at: float
    etag: str | None = None
    last_modified: str | None = None


class Source(Protocol):
    """A place with recipes. Every call ends within its own deadline and raises only SourceTrouble or BadRecipe."""

    name: str
    """Its URL or folder, as the settings say it."""
    remote: bool
    """Whether asking it costs a network request, so that a copy checked a moment ago is used instead."""

    async def fetch(self, slug: str, pin: Pin | None = None) -> Fetched | Unchanged | None:
        """The document; Unchanged only where `pin` came from here; None where there is none of that name."""
        ...

    async def entry(self, slug: str) -> Recipe | None:
        """What its listing says of a recipe whose document it does not have."""
        ...

    async def search(self, query: Query) -> tuple[Page, ...]:
        """Its listing, all pages, filtered as far as the source itself can."""
        ...

    def owns(self, url: str) -> str | None:
        """The slug of a document that `url` names at this source, None where it is not one of its own."""
        ...


class Pins(Protocol):
    """The pinned copies on disk."""

    async def get(self, slug: str) -> tuple[Pin, bytes] | None:
        """The pin and its bytes, proven to be what was pinned. Raises PinBroken."""
        ...

    async def put(self, pin: Pin, data: bytes | None = None) -> None:
        """Keep a pin, with new bytes or (None) with the ones that are there. Raises SourceTrouble where it cannot."""
        ...
