"""One look at one engine, from all sources; what could not be read says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agent.clock import Instant
from agent.container.port import ContainerView, StopRequest
from agent.engines.model import EngineReading, LogEvent, Pong
from agent.samples.marks import Marks


class Miss(StrEnum):
    """How a source failed. Refused is a port that nobody listens on; a time-out may just be a busy engine."""

    REFUSED = "refused"
    TIMEOUT = "timeout"
    HTTP = "http"
    BROKEN = "broken"
    NOT_ASKED = "not_asked"
    NO_RIGHTS = "no_rights"
    UNSUPPORTED = "unsupported"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Missed:
    """A source that gave nothing, and why. Never read as zero, idle or healthy."""

    kind: Miss
    why: str


@dataclass(frozen=True, slots=True)
class Health:
    """The HTTP side's own word; it says nothing about the scheduler."""

    status: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Connections:
    """TCP connections whose local port is the engine's, the agent's own not counted.

    `close_wait`: clients that have gone and a server that did not notice.
    """

    established: int
    close_wait: int = 0


@dataclass(frozen=True, slots=True)
class Activity:
    """The processes of the container together."""

    count: int
    cpu_seconds: float
    """User + system time of all of them since their start; falls when one ends."""
    io_bytes: float | None = None
    """Bytes read from storage and written to it, None without the right to look."""
    uninterruptible: tuple[int, ...] = ()
    """Pids in state D."""
    stopped: tuple[int, ...] = ()
    """Pids in state T."""
    compilers: tuple[str, ...] = ()
    """Names of nvcc, ptxas, cicc, ninja, cc1plus, … among them."""
    own_bytes: int | None = None
    """Memory of theirs that is no file's and not shared; None where that of one of them cannot be told."""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One card of the deployment; None is not readable here."""

    uuid: str
    utilization: float | None = None
    """0..1 over the driver's last sampling period."""
    power_w: float | None = None
    memory_used: int | None = None
    temperature_c: float | None = None
    recovery_action: int | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Xid:
    """One Xid that the driver reported for a card of this deployment."""

    uuid: str
    number: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Canary:
    """The answer to one tagged request for one token. `token` is True only when the scheduler gave one."""

    token: bool
    seconds: float
    why: str
    timed_out: bool = False
    status: int | None = None
    """HTTP status of the answer; None where there was none. 4xx says that the question was wrong, not the engine."""
    rank: str = ""
    """The data-parallel rank that was to answer; empty: whichever took it."""

    @property
    def refused_us(self) -> bool:
        """The engine would not take this question (key, model's name, path): it settles nothing."""
        return not self.token and self.status is not None and 400 <= self.status < 500


@dataclass(frozen=True, slots=True)
class Sample:
    """Everything one tick saw. None means that the source was not asked in this tick (its turn comes later)."""

    at: Instant
    container: ContainerView | Missed
    scrape: EngineReading | Missed
    health: Health | Missed | None = None
    ping: Pong | Missed | None = None
    """The scheduler's own answer, where the engine offers such a question."""
    connections: Connections | Missed | None = None
    activity: Activity | Missed | None = None
    gpus: tuple[GpuSample, ...] | Missed | None = None
    log: tuple[LogEvent, ...] = ()
    """What the log said since the last sample."""
    log_lines: int = 0
    """Lines written since the last sample, meaningful or not."""
    log_unread: Missed | None = None
    """Why its log cannot be read now: then that it says nothing means nothing."""
    xids: tuple[Xid, ...] = ()
    canary: Canary | None = None
    """A canary that ended since the last sample."""
    canary_out: bool = False
    """One is under way."""
    stop: StopRequest | None = None
    """A stop that was asked of the runtime and was not ours (looked up once the container has exited)."""
    oom_kills: int | None = None
    """Counter of the container's cgroup (memory.events oom_kill), None where not readable or gone with it."""
    host_oom_kills: int | None = None
    """The same counter of the whole host, which is there after an exit too."""


@dataclass(frozen=True, slots=True)
class Window:
    """The samples of one generation, oldest first, with what is older than the oldest and still matters.

    `started`: when this generation's container was started. `ready`: when it was first seen ready, None before.
    `learned`: figures calibrated from this engine's own past (`prefill_s` of `prefill_tokens`, `start_s` with its
    `phase_s.<phase>`, `idle_power_w.<uuid>`).
    """

    samples: tuple[Sample, ...]
    started: Instant
    ready: Instant | None = None
    phases: tuple[LogEvent, ...] = ()
    """The steps of this generation's start-up so far, the newest line of each."""
    phased: tuple[Instant, ...] = ()
    """When each of `phases` began."""
    failures: tuple[LogEvent, ...] = ()
    """Failure lines that may still be the cause of what is seen now, oldest first."""
    learned: Mapping[str, float] = field(default_factory=dict)
    marks: Marks = field(default_factory=Marks)

    @property
    def last(self) -> Sample:
        return self.samples[-1]

    @property
    def now(self) -> Instant:
        return self.samples[-1].at

    def tail(self, seconds: float, least: int = 1) -> tuple[Sample, ...]:
        """The samples of the last so many seconds, oldest first; the newest `least` always, as far as there are any."""
        first = max(0, len(self.samples) - least)
        while first > 0 and self.now - self.samples[first - 1].at <= seconds:
            first -= 1
        return self.samples[first:]
