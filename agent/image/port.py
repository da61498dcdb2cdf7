"""What images need of a container engine, and what making one says on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Say: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Takes progress: `{"text": one line for a person, "ratio": 0..1 or None where it is unknown}`."""


@dataclass(frozen=True, slots=True)
class ImageReady:
    """An image that is here. `reference` is what a container is to be created from.

    `digest` is the registry's (`sha256:…`), None for an image that came from no registry; `id` the engine's own.
    """

    reference: str
    digest: str | None
    id: str


class Found(Protocol):
    """An image that is here, as a runtime describes it."""

    @property
    def id(self) -> str: ...

    @property
    def digests(self) -> tuple[str, ...]:
        """`REPOSITORY@sha256:…` of every registry that it is known to."""
        ...


class Fetched(Protocol):
    """Where a pull is, as a runtime describes it: bytes as they travel, over all layers known so far."""

    @property
    def done(self) -> int: ...

    @property
    def total(self) -> int | None: ...

    @property
    def layers_done(self) -> int: ...

    @property
    def layers(self) -> int: ...

    @property
    def text(self) -> str: ...


class ImageRuntime(Protocol):
    """The part of a runtime that this stage uses; every container runtime has it."""

    async def image(self, reference: str) -> Found | None: ...

    def pull(self, reference: str) -> AsyncIterator[Fetched]:
        """Fetch an image; it is there when this ends. Raises RuntimeTrouble, `retryable` where the same may help."""
        ...
