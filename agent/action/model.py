"""The closed set of steps. One tick runs one of them, then looks again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Nothing:
    """Look again at the next tick."""

    why: str


@dataclass(frozen=True, slots=True)
class Preflight:
    """Run every check of the plan."""

    why: str


@dataclass(frozen=True, slots=True)
class PrepareImage:
    """Pull or build the image, or find it."""

    why: str


@dataclass(frozen=True, slots=True)
class Create:
    """Create the container of the next generation."""

    generation: int
    why: str


@dataclass(frozen=True, slots=True)
class Start:
    """Start a created container (only ever one that has never run)."""

    container: str
    why: str


@dataclass(frozen=True, slots=True)
class AskCanary:
    """Ask the engine for one token, beside the loop."""

    why: str


@dataclass(frozen=True, slots=True)
class SaveEvidence:
    """Write an incident before anything is stopped or removed. `brief` where the container has exited already."""

    kind: str
    brief: bool
    why: str


@dataclass(frozen=True, slots=True)
class Abort:
    """Abort the requests that nobody waits for. `everything`: engine-wide, only when nobody else is served."""

    everything: bool
    why: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Begin to take the container down: recorded first, so that a kill in between goes on with it."""

    reason: str
    why: str


@dataclass(frozen=True, slots=True)
class Released:
    """The take-down is over and its release is proven."""

    why: str


@dataclass(frozen=True, slots=True)
class Signal:
    """Send TERM or KILL to the container's first process."""

    container: str
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class EndOrphans:
    """KILL what outlived its container, by pid and start time."""

    why: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """Remove the files that the container left in the host's /dev/shm: its own, and mapped by nobody."""

    files: tuple[tuple[str, int], ...]
    why: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Save the whole log, then remove an exited container."""

    container: str
    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for a release or a backoff; nothing is done meanwhile."""

    until: float
    """Seconds of CLOCK_MONOTONIC."""
    why: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Come to rest in a state: `stopped`, `failed`, `quarantined`, `ready` …"""

    state: str
    why: str


@dataclass(frozen=True, slots=True)
class Stuck:
    """A take-down that hangs in the runtime: a person is needed, and it goes on by itself should that come back."""

    why: str


@dataclass(frozen=True, slots=True)
class RollBack:
    """The plan never became ready: back to the one that last did."""

    plan_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Yield:
    """Another deployment, which this one replaces, makes room: everything for the new one is ready."""

    slug: str
    why: str


@dataclass(frozen=True, slots=True)
class BringBack:
    """The replacement failed and is gone: the deployment that made room starts again."""

    slug: str
    why: str


@dataclass(frozen=True, slots=True)
class Forget:
    """The deployment is removed: its record and its series go."""

    why: str


Step = (
    Nothing
    | Preflight
    | PrepareImage
    | Create
    | Start
    | AskCanary
    | SaveEvidence
    | Abort
    | Stop
    | Released
    | Signal
    | EndOrphans
    | Sweep
    | Remove
    | Wait
    | Settle
    | Stuck
    | RollBack
    | Yield
    | BringBack
    | Forget
)
