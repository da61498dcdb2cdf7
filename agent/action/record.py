"""What the agent remembers of one deployment between two instructions: enough to go on after a kill at any of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from agent.verdict.model import Remedy


class State(StrEnum):
    """The states of the API, in the order of a life."""

    PENDING = "pending"
    PLANNING = "planning"
    PREFLIGHT = "preflight"
    IMAGE = "image"
    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    SUSPECT = "suspect"
    STALLED = "stalled"
    ZOMBIE = "zombie"
    DEAD = "dead"
    STOPPING = "stopping"
    RELEASING = "releasing"
    BACKOFF = "backoff"
    ASLEEP = "asleep"
    UNOBSERVABLE = "unobservable"
    STOPPED = "stopped"
    FAILED = "failed"
    QUARANTINED = "quarantined"


RESTING = frozenset({State.STOPPED, State.FAILED, State.QUARANTINED})
"""States that only a person ends."""


class Desired(StrEnum):
    """What the person asked for last."""

    RUNNING = "running"
    STOPPED = "stopped"
    REMOVED = "removed"


class Supervision(StrEnum):
    """Whether the agent acts on its verdicts."""

    ACTIVE = "active"
    OBSERVE = "observe"
    PAUSED = "paused"


class Reason(StrEnum):
    """Why a container is taken down. Only `fault` spends the restart budget."""

    FAULT = "fault"
    STOP = "stop"
    RESTART = "restart"
    DEPLOY = "deploy"
    REMOVE = "remove"
    REBOOT = "reboot"
    GIVE_BACK = "give_back"
    WINDOW = "window"


@dataclass(frozen=True, slots=True)
class Fault:
    """The fault that is being acted on. It is dropped when a later look finds the engine healthy again."""

    kind: str
    why: str
    remedy: Remedy
    at: float
    failure: str | None = None
    incident: str | None = None
    abort_tried: str = ""
    """`narrow` or `everything`, with `abort_at` when."""
    abort_at: float | None = None
    """Seconds of CLOCK_MONOTONIC."""


@dataclass(frozen=True, slots=True)
class Takedown:
    """A container on its way out, as far as it has come.

    Times are seconds of CLOCK_MONOTONIC: they hold over a restart of the agent, and a wall clock that is set does not
    move them. After a reboot they mean nothing and begin again (`agent.action.adopt`).
    """

    reason: Reason
    why: str
    begun: float | None = None
    """When the loop first looked at it; a person's wish is written down before any look."""
    drain_s: float | None = None
    term_at: float | None = None
    kill_at: float | None = None
    cut: int | None = None
    """Connections that were still there when TERM was sent."""
    unsent: str = ""
    """Why the last signal could not be sent; empty where it was, or none was tried."""
    unseen_at: float | None = None
    """Since when the runtime does not let it be looked at."""
    remove_at: float | None = None
    """When its removal was first asked for."""
    asked_at: float | None = None
    """When its removal, or its KILL, was asked for last."""
    stuck: bool = False
    """The runtime hangs over it, and a person was told."""
    removed_at: float | None = None
    members: tuple[tuple[int, int], ...] = ()
    """Pid and start time (clock ticks since boot) of the container's processes when it was asked to end."""
    container: str | None = None
    """Its id, for what outlives it."""
    orphans_ended_at: float | None = None
    swept: bool = False
    """Its files in /dev/shm were looked for and removed."""


class Wear(StrEnum):
    """Why an engine that works is better started anew, when nobody minds."""

    SLOW = "slow"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Wearing:
    """What an engine that works suffers from, as it was first seen. `since`: seconds of CLOCK_MONOTONIC.

    `kept`: its evidence was gathered.
    """

    kind: Wear
    why: str
    since: float
    kept: bool = False
    incident: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """What of the host was in use just before a start: what a release is held against. Bytes; None is not known."""

    cards: Mapping[str, int] = field(default_factory=dict)
    """GPU memory in use by UUID."""
    owned: Mapping[str, int] = field(default_factory=dict)
    """What of it living processes have; a card with a process that does not say how much is not in it."""
    host: int | None = None
    """Memory available (MemAvailable)."""
    anonymous: int | None = None
    """Memory of processes (AnonPages)."""
    shared: int | None = None
    """Shared memory and tmpfs (Shmem)."""
    files: tuple[int, ...] | None = None
    """Inodes of the files in /dev/shm; None where it was not looked at, or they were too many."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """The record of one slug. Everything that a decision needs and that a kill must not lose is here.

    `generation` is the highest one that was ever asked of the runtime: it is written before the container is created.
    `checked` and `imaged` are ids of the plan whose preflight and image are done for the coming start.
    `starts`: what was in use before each of the last starts of this boot, oldest first. `shared`: name and inode of
    each file in the host's /dev/shm that appeared since the last start and that the engine's processes had mapped.
    `backoff_until` is on CLOCK_MONOTONIC; every other time is seconds since the epoch and is only shown.
    """

    slug: str
    plan_id: str
    desired: Desired = Desired.RUNNING
    supervision: Supervision = Supervision.ACTIVE
    state: State = State.PENDING
    since: float = 0.0
    why: str = ""
    step: str = ""
    generation: int = 0
    container: str | None = None
    boot_id: str = ""
    started_at: float | None = None
    ready_at: float | None = None
    healthy_s: float = 0.0
    restarts: tuple[float, ...] = ()
    port_failures: int = 0
    start_stalls: int = 0
    """Starts in a row that were taken down since nothing in them moved."""
    fault: Fault | None = None
    takedown: Takedown | None = None
    next_plan: str | None = None
    checked: str | None = None
    imaged: str | None = None
    backoff_until: float | None = None
    accepted: tuple[str, ...] = ()
    at_window: bool = False
    """The next plan takes over in a maintenance window only."""
    restart_at_window: bool = False
    """A person asked for a restart in the next maintenance window."""
    wearing: Wearing | None = None
    restart_waits: str = ""
    """Whose restart waits for a maintenance window: `plan`, `person`, or a word of `Wear`; empty for none."""
    window_used: float | None = None
    """When the maintenance window opened in which it was last restarted for its wear, seconds since the epoch."""
    starts: tuple[Held, ...] = ()
    shared: tuple[tuple[str, int], ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counters that outlive the agent: `stalls.busy`, `restarts.stalled`, `incidents.dead`, …"""
    proved: int = 0
    """The generation that has shown what its profile wants (`acceptance`)."""
    last_good: str | None = None
    """The last plan that became ready."""
    served: tuple[str, ...] = ()
    """The plans that became ready, the latest last: what a person can go back to."""
    returning: str | None = None
    """The plan that is being gone back from; None when the plan is what was asked for."""
    replaces: str | None = None
    """The deployment that made or makes room for this one, until this one has become ready."""
    give_back: str | None = None
    """That deployment, once this one has failed and is on its way out."""
    sets: Mapping[str, str] = field(default_factory=dict)
    """The values that a person gave with the deploy (`--set`)."""
    would: str | None = None
    """The fault that `observe` has counted already, so that it counts once."""

    @property
    def target(self) -> str:
        """The plan that the next start will use."""
        return self.next_plan or self.plan_id

    @property
    def before(self) -> str | None:
        """The plan that served before the current one; None where there was none."""
        earlier = [one for one in self.served if one != self.plan_id]
        return earlier[-1] if earlier else None

    @property
    def held(self) -> Held:
        """Before the last start."""
        return self.starts[-1] if self.starts else Held()

    def at(self, state: State, why: str, now: float) -> Deployment:
        """In `state` for the reason `why`; `since` moves only when the state does."""
        if state is self.state:
            return replace(self, why=why)
        return replace(self, state=state, why=why, since=now)

    def counted(self, *names: str) -> Deployment:
        """With one more of each counter."""
        counts = dict(self.counts)
        for name in names:
            counts[name] = counts.get(name, 0) + 1
        return replace(self, counts=counts)
