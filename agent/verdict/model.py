"""What a window of samples means."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agent.engines.model import FailureClass


class Judged(StrEnum):
    """The judged states; the same words as the deployment's states in the API."""

    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    SUSPECT = "suspect"
    STALLED = "stalled"
    ZOMBIE = "zombie"
    DEAD = "dead"
    ASLEEP = "asleep"
    UNOBSERVABLE = "unobservable"
    STOPPED = "stopped"


class Remedy(StrEnum):
    """What kind of act a fault calls for; the budget and the site may still say no."""

    NONE = "none"
    ABORT = "abort"
    """Abort the zombies first where the engine can, then restart."""
    RESTART = "restart"
    GIVE_UP = "give_up"
    """A restart cannot mend it: `failed`."""
    QUARANTINE = "quarantine"
    """The host or a card needs a person."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sentence with its evidence.

    `kind` names the fault for metrics and incidents (`busy`, `idle`, `start`, `exit`, `engine_dead`, `zombie_held`, …),
    empty when healthy. `wants_canary` asks for one token because only that can settle it. `progress` is 0..1 of a
    start-up, None when unknown. `blind` names the signals that could not be had (`connections`, `kv_usage`, …).
    """

    state: Judged
    why: str
    kind: str = ""
    remedy: Remedy = Remedy.NONE
    failure: FailureClass | None = None
    evidence: tuple[str, ...] = ()
    phase: str | None = None
    progress: float | None = None
    seconds_since_progress: float | None = None
    wants_canary: bool = False
    canary_timeout_s: float | None = None
    """How long that canary may take: short where nothing runs, else long enough for a prefill ahead of it."""
    canary_rank: str = ""
    """The data-parallel rank that is to answer it; empty for any."""
    blind: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    """Numbers for the export: requests_running, zombie_requests, zombie_kv_tokens, decode_tok_s, …"""

    @property
    def fault(self) -> bool:
        return self.remedy is not Remedy.NONE
