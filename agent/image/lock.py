"""The lock: what was found when a plan's image was made or fetched, kept beside the plan."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from agent.image.port import ImageReady


@dataclass(frozen=True, slots=True)
class LockedSource:
    """A source as it went in. `commit` is whole, or the SHA-256 of an archive."""

    url: str
    commit: str
    tag: str | None = None
    license: str | None = None


@dataclass(frozen=True, slots=True)
class Lock:
    """`how`: `pulled` or `built` by the agent, or `found` here, which is never the agent's to remove.

    `base_how`: whether the base was `pulled` for this build or `found`. `files`: SHA-256 of every file that went into a
    build, by its path in the build context.
    """

    image: ImageReady
    how: str
    base: ImageReady | None = None
    base_how: str = ""
    sources: Mapping[str, LockedSource] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    dockerfile: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def from_json(data: Mapping[str, Any]) -> Lock:
    """Raises KeyError and TypeError for what is no lock."""
    return Lock(
        image=ImageReady(**data["image"]),
        how=str(data["how"]),
        base=ImageReady(**data["base"]) if data.get("base") else None,
        base_how=str(data.get("base_how", "")),
        sources={name: LockedSource(**one) for name, one in data.get("sources", {}).items()},
        files=dict(data.get("files", {})),
        dockerfile=str(data.get("dockerfile", "")),
    )


class Locks(Protocol):
    """Where locks are kept. A lock that cannot be read is none: the image is then found out again."""

    async def read(self, plan_id: str) -> Lock | None: ...

    async def write(self, plan_id: str, lock: Lock) -> None: ...

    async def forget(self, plan_id: str) -> None:
        """The next time a tag means what it means then."""
        ...

    async def all(self) -> Mapping[str, Lock]:
        """By plan."""
        ...

    def held(self, name: str) -> AbstractAsyncContextManager[None]:
        """One at a time of that name, over all processes of this host."""
        ...
