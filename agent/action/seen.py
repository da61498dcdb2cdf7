"""Everything that one decision may look at, gathered before it is made."""

from __future__ import annotations

from dataclasses import dataclass

from agent.action.record import Wear
from agent.clock import Instant
from agent.container.port import ContainerView
from agent.plan.watch import Watch
from agent.verdict.model import Verdict


@dataclass(frozen=True, slots=True)
class Release:
    """Whether what a container held is free again. `held` says what is not, one sentence each."""

    held: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    """What is waited for and does not block in the end: a start may go well without it."""
    unknown: tuple[str, ...] = ()
    """What could not be looked at; it does not block, and it is said."""

    @property
    def proven(self) -> bool:
        return not self.held


@dataclass(frozen=True, slots=True)
class Survivor:
    """A process that outlived its container, by pid and start time (clock ticks since boot): never by name."""

    pid: int
    start_time: int
    state: str
    command: str


@dataclass(frozen=True, slots=True)
class Worn:
    """Something that is worse than it was, that a new start may mend, and that can wait."""

    kind: Wear
    why: str


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What the site lets be done in its maintenance windows. `opened`: when the one that is open began, seconds since
    the epoch; None while none is open."""

    windows: bool = False
    opened: float | None = None
    restart_for: frozenset[str] = frozenset()
    settled_s: float = 0.0
    drain_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One look, frozen. `container` is the current generation's; `leftovers` are older ones of the same slug.

    `unreachable` says why the runtime could not be asked; then nothing else about containers is known. `release` and
    `survivors` are looked at only while a container is taken down. `clients` is None when it cannot be told.
    """

    now: Instant
    watch: Watch
    boot_id: str
    container: ContainerView | None = None
    leftovers: tuple[ContainerView, ...] = ()
    verdict: Verdict | None = None
    unreachable: str | None = None
    release: Release | None = None
    survivors: tuple[Survivor, ...] = ()
    members: tuple[tuple[int, int], ...] = ()
    """Pid and start time of the container's processes at the last look at them."""
    shared: tuple[tuple[str, int], ...] = ()
    """Files in the host's /dev/shm that its processes had mapped and that were not there before its start."""
    swept: tuple[tuple[str, int], ...] = ()
    """Those of the record's that are still there now that the container is gone, and mapped by nobody."""
    broken: str = ""
    """What is wrong with the host or a card of this deployment that no start can mend."""
    window: str = ""
    """Empty while a maintenance window is open, else when the next one opens."""
    upkeep: Upkeep = Upkeep()
    worn: tuple[Worn, ...] = ()
    host_wait: float = 0.0
    """Seconds until the restarts of all deployments together allow one more."""
    clients: int | None = None
    other: str = ""
    """The deployment that this one replaces: `runs`, `leaves` or `rests`; empty when it replaces none."""
    proved: bool = False
    """The engine has shown what its profile wants."""
    canary_out: bool = False
    can_abort: tuple[str, ...] = ()
    """`narrow`, `everything`: what this engine's running version offers."""
    served: int | None = None
    """Clients that an engine-wide abort would cut, None when unknown."""
