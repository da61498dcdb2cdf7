"""A program that is tried out where an engine will run: what it may use, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.quantity import Bytes

NOT_FOUND = 127
"""Exit status of a program that is not there, as shells have it."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One program in a throw-away container of `image`, or with the agent's own Python where `image` is None.

    The container has no network, no capability, a root that cannot be written, and nothing of the host but `binds`
    (always read-only) and the cards of `gpus` (Docker's DeviceRequests). It is removed whatever happens.
    """

    words: tuple[str, ...]
    image: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    binds: tuple[tuple[str, str], ...] = ()
    """(source on the host, target) of each."""
    gpus: tuple[Mapping[str, Any], ...] = ()
    runtime: str = ""
    """Docker's name of the OCI runtime, empty for its default."""
    seconds: float = 60.0
    memory: Bytes = field(default_factory=lambda: Bytes.gib(4))


@dataclass(frozen=True, slots=True)
class Ran:
    """How it ended, and the last of what it said."""

    code: int
    out: str = ""
    err: str = ""

    @property
    def last_words(self) -> str:
        """The last line of its errors, of its output where there are none."""
        lines = [line.strip() for line in (self.err.strip() or self.out.strip()).splitlines() if line.strip()]
        return lines[-1] if lines else f"status {self.code} and no word"
