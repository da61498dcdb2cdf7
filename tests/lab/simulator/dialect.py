"""What differs between engines in the scheduler's process: names, log, start, death. The steps are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from .clock import Clock
from .faults import Board
from .flags import Launch
from .log import Log
from .sequences import Crowd
from .settings import Settings


@dataclass(frozen=True, slots=True)
class World:
    """What all processes of an engine are born with."""

    launch: Launch
    settings: Settings
    clock: Clock
    board: Board
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class Patience:
    """How a hang ends by itself: after `seconds` of the engine with this error (None: never); a line per minute."""

    seconds: float | None
    error: str = ""
    minutely: tuple[str, str] | None = None


class Dialect(Protocol):
    """One engine's habits."""

    beat_s: float | None
    """How often an idle scheduler gives a sign of life, in engine seconds; None: never."""

    def log(self, launch: Launch, rank: int) -> Log:
        """The logger of a scheduler process."""

    def title(self, process: str) -> str:
        """How a process of this name shows in `ps`."""

    def crew(self, launch: Launch) -> list[str]:
        """The worker processes of one scheduler."""

    def worker_log(self, name: str, pid: int) -> Log:
        """The logger of a worker."""

    def start(self, world: World, log: Log, worker: Log, blocks: int) -> None:
        """The start, with its pace. Raises StartFailure."""

    def failed(self, log: Log, worker: Log, error: str, *, in_worker: bool) -> None:
        """A start that failed."""

    def orphaned(self, log: Log) -> None:
        """A worker whose scheduler is gone."""

    def fatal(self, log: Log, error: str, workers: int) -> None:
        """The scheduler dies."""

    def patience(self, world: World, kind: str) -> Patience:
        """How long a hang of this kind lasts."""

    def terminated(self, log: Log, timeout: int, requests: int) -> None:
        """SIGTERM has come."""

    def drained(self, log: Log) -> None:
        """What was asked for is done; the process ends."""

    def steps(self, log: Log, report: dict[str, Any], gauges: dict[str, Any], crowd: Crowd) -> None:
        """Some steps are done, for these requests: whatever the scheduler itself logs about them."""
