"""What images need of a container engine, and what making one says on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

from agent.image.buildplan import SourceSpec
from agent.image.dockerfile import Dockerfile

Say: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Takes progress: `{"text": one line for a person, "ratio": 0..1 or None where it is unknown}`.

`stage`, where it is there, is what stays the same while the text counts on: a pull, one step of a build.
"""


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


class Mode(StrEnum):
    """What an entry of a source is; the values are git's modes."""

    FILE = "100644"
    EXECUTABLE = "100755"
    LINK = "120000"
    SUBMODULE = "160000"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a source: `blob` names its content."""

    mode: Mode
    blob: str


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch file, with the words that name it in sentences."""

    path: str
    source: str
    content: bytes


class Tree(Protocol):
    """A source in one state, which never changes."""

    origin: str
    """`NAME (URL at COMMIT)`."""
    commit: str
    """The git commit; for an archive its SHA-256."""
    entries: Mapping[str, Entry]
    """By path, in order; folders are implied."""
    time: int
    """Seconds since the epoch, which its files get: a build's result depends on no clock."""

    async def read(self, path: str) -> bytes:
        """A file's content, or a link's target. Raises KeyError."""
        ...

    def contents(self, paths: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]:
        """Many of them, in order."""
        ...

    async def patched(self, patches: Sequence[Patch]) -> Tree:
        """The tree with all patches applied in order. Raises PatchFailed, with nothing applied."""
        ...


class Sources(Protocol):
    """Where sources come from: fetched once, verified, kept.

    Raises SourceUnreachable (`retryable`), SourceRefused, SourceMismatch.
    """

    async def fetch(self, spec: SourceSpec, say: Say) -> Tree: ...

    async def contains(self, spec: SourceSpec, commit: str, earlier: str, say: Say) -> bool:
        """Whether `earlier` (maybe abbreviated) is `commit` or one of its ancestors."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """A build context as a tar file, the SHA-256 of every file by its path in it, and notes on what was left out."""

    file: IO[bytes]
    files: Mapping[str, str]
    notes: tuple[str, ...] = ()


class Contexts(Protocol):
    """Writes build contexts."""

    def assembled(
        self, dockerfile: Dockerfile, trees: Mapping[tuple[str, int], Tree]
    ) -> AbstractAsyncContextManager[Context]:
        """A context that is gone after the block. Trees by source and revision.

        Raises NotInSource, CountDiffers, UnsafeSource, SourceRefused.
        """
        ...


@dataclass(frozen=True, slots=True)
class BuildEvent:
    """What a build says. `instruction` counts from 1 to `of`; `output` is what the instruction printed."""

    instruction: int
    of: int
    output: str = ""
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """An image that this agent built or began to build: `names` empty is a step of one, or a half one."""

    id: str
    slug: str
    names: tuple[str, ...]
    size: int
    created: float
    parent: str | None = None


class InstructionFailed(Exception):
    """The instruction that was running ended with an error; the words are the engine's."""


class Builder(Protocol):
    """What an engine can do to make images. Raises RuntimeTrouble where it does not answer or says no."""

    async def places(self, image: str, packages: Sequence[str]) -> Mapping[str, str]:
        """`{site_packages}` and `{package:NAME}` as they are in an image. Raises BaseLacks."""
        ...

    async def user(self, image: str) -> str:
        """The user that an image runs as; empty is root."""
        ...

    def build(self, context: IO[bytes], tag: str) -> AsyncIterator[BuildEvent]:
        """Build a context; the image has its tag when this ends, and not before. Raises InstructionFailed."""
        ...

    async def made(self) -> tuple[Made, ...]:
        """Everything that is labelled as built by the agent."""
        ...

    async def remove(self, image: str) -> bool:
        """Remove an image or a name of one; False where something uses it."""
        ...

    async def save(self, image: str, path: Path) -> int:
        """An image as `docker load` takes it, there whole or not at all; bytes written."""
        ...

    async def load(self, path: Path) -> None:
        """What `save` wrote."""
        ...
