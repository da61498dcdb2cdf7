"""What differs between engines in the server: its books, its routes, what it says, and how it ends."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from .control import Control
from .dialect import World
from .engine_client import EngineClient
from .httpd import Site
from .ledger import Books


class Front(Protocol):
    """One engine's server, around an engine client."""

    world: World
    books: Books
    early: bool
    """Whether the port answers while the engine starts; else it refuses until all is ready."""

    def begin(self) -> None:
        """What it says before it starts a scheduler. Raises StartFailure."""

    def listening(self) -> None:
        """What it says when the port is taken and the schedulers are to be started."""

    def refused(self, error: Exception) -> int:
        """It cannot even try (a StartFailure, or the port's OSError): what it says, and its exit code."""

    def interrupted(self, engine: EngineClient) -> int | None:
        """SIGTERM before it serves: its exit code, None where it goes on."""

    def site(self, engine: EngineClient, control: Control | None) -> Site:
        """Its routes, with the control's where there is no port apart."""

    async def serving(self, engine: EngineClient) -> None:
        """What it does once it listens, for as long as it lives."""

    def failed(self, engine: EngineClient) -> int:
        """A scheduler ended before all were ready: what it says, and its exit code."""

    def died(self, end: End, *, stays: bool) -> Awaitable[int] | None:
        """A scheduler died: how the server ends, None where it stays."""

    def asked(self, end: End) -> Awaitable[int]:
        """SIGTERM: how the server ends."""


class End(Protocol):
    """What an end has to do with."""

    engine: EngineClient
    site: Site

    def close_port(self) -> None:
        """Refuse new connections."""
