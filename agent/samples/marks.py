"""What a window remembers of samples that it no longer holds: since when, and when last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agent.clock import Instant
from agent.engines.model import RankReading


class Gauge(StrEnum):
    """Whether the KV gauge of this engine shows the steps of a prefill.

    `shown`: it moved while the same requests ran. `refuted`: thousands of tokens were made and it stood still (models
    without a KV cache that grows). `unknown`: nothing was seen that would tell.
    """

    UNKNOWN = "unknown"
    SHOWN = "shown"
    REFUTED = "refuted"


@dataclass(frozen=True, slots=True)
class RankMark:
    """One scheduler: its newest reading, and when anything of it that proves a step last changed.

    `since`: when it was first seen, or was seen restarted. `still_tokens`: tokens made a request while the KV gauge
    stood still.
    """

    last: RankReading
    progressed: Instant
    since: Instant
    gauge: Gauge = Gauge.UNKNOWN
    still_tokens: float = 0.0
    named: Instant | None = None
    """When a look last showed it."""

    @property
    def steps_visible(self) -> Gauge:
        """Whether a prefill of this rank can be seen to step: by a counter of steps, or by the gauge."""
        return Gauge.SHOWN if self.last.steps else self.gauge


@dataclass(frozen=True, slots=True)
class Clients:
    """Connections against requests, each from when on without a break."""

    clientless: Instant | None = None
    """Requests run and nobody is connected."""
    outnumbered: Instant | None = None
    """More requests run than clients are connected, and some are."""
    standing: Instant | None = None
    """Clients are connected and nothing runs."""
    pooled: bool = False
    """They have stood for so long that they are a pool's: who is a client can no longer be told."""
    detached: Instant | None = None
    """When a request was last answered that may run on with no client; forgotten once nothing runs."""
    stale_gauge: Instant | None = None
    """When a canary's step brought down requests that nobody waited for: they were never there."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What answered and what did not, each from when on without a break."""

    scraped: Instant | None = None
    """The last good scrape."""
    failing: Instant | None = None
    """Scrapes fail (refused, timed out, broken)."""
    refused: Instant | None = None
    """Scrapes are refused."""
    unhealthy: Instant | None = None
    """The health path says 5xx."""
    health_lost: Instant | None = None
    """The health path does not answer at all."""
    ping_lost: Instant | None = None
    """Loop pings go unanswered."""
    ping_misses: int = 0
    ping_ok: Instant | None = None
    """The last loop ping that was answered."""
    heartbeat: float | None = None
    """Seconds that the scheduler's last heartbeat was old when it was last told."""


TWICE = 3
"""So many pairs of answers show that a number counts."""


@dataclass(frozen=True, slots=True)
class Canaries:
    """What became of the requests for one token."""

    out: Instant | None = None
    """Since when one is under way."""
    asked_idle: bool = False
    """Nothing ran when the last one was asked."""
    token: Instant | None = None
    """When one last brought a token."""
    strikes: int = 0
    """Unanswered ones in a row since the engine last proved to be alive."""
    struck: Instant | None = None
    """When the last unanswered one came back; it was asked `struck_after` seconds before."""
    struck_after: float = 0.0
    struck_why: str = ""
    unfit: str = ""
    """Why the engine would not take the question; empty when it did, or was not asked."""
    ended: Instant | None = None
    """When the last one ended, whatever it brought, `took` seconds after it was asked."""
    took: float = 0.0
    rank: str = ""
    """The data-parallel rank that the last one was asked of; empty: whichever took it."""
    calm: bool = False
    """Nothing ran when the last one was asked, or now where none is under way."""
    moves: Mapping[str, int] = field(default_factory=dict)
    """At how many looks each rank moved since the one under way was asked."""
    untold: bool = False
    """The last one brought a token, and it is not known yet whether the rank that it named gave it."""
    own: tuple[str, ...] = ()
    """The ranks that were seen to answer to their numbers, in a row, each asked twice running."""
    stray: Instant | None = None
    """When one that named a rank was last answered by another, or turned away."""
    excused: Instant | None = None
    """When no token was last to be expected."""

    @property
    def aims(self) -> bool | None:
        """Whether the rank that is named answers and no other: None until enough answers have told.

        Three times a rank twice running, and not always the same: turns pass no rank twice, a fixed choice stays with
        one, and chance seldom goes so far.
        """
        if self.stray is not None:
            return False
        twice = [first for first, second in zip(self.own[::2], self.own[1::2], strict=False) if first == second]
        return True if len(twice) >= TWICE and len(set(twice)) > 1 else None


@dataclass(frozen=True, slots=True)
class Effort:
    """Signs of work outside the engine's own word."""

    moved: Instant | None = None
    """Log, disk, processor or GPU memory last moved."""
    worked: Instant | None = None
    """Disk (by more than a little), processor or memory last moved: all of that but the log."""
    stored: Instant | None = None
    """Disk or memory, the cards' or its own, last moved: all of that but log and processor."""
    advanced: Instant | None = None
    """The log last told of another step of the start, or of a higher percent in one."""
    waited: Instant | None = None
    """One of its processes was last seen to wait in the kernel (state D), as one that reads from a disk does."""
    wrote: Instant | None = None
    """The last log line that is no mere waiting."""
    spoke: Instant | None = None
    """The last word that only a turning scheduler says: a line of the log, or other places where its requests stand."""
    jit: Instant | None = None
    """Compilers were last seen at work, `jit_since` from when on without a longer break."""
    jit_since: Instant | None = None
    loads: Instant | None = None
    """Weights were last seen on their way to the cards, `loads_since` from when on without a longer break."""
    loads_since: Instant | None = None
    position: str | None = None
    """Where the scheduler last said that its requests stand."""
    hang: Instant | None = None
    """The last line that a hung engine writes."""
    draining: Instant | None = None
    """The engine said that it was told to end."""
    paused: Instant | None = None
    """The log says that it was told to stand still, and nothing has moved since."""
    idle_power: Mapping[str, float] = field(default_factory=dict)
    """Watts of each card while nothing ran, the least that was seen."""


@dataclass(frozen=True, slots=True)
class XidSeen:
    """One Xid of this generation."""

    uuid: str
    number: int
    text: str
    at: Instant


@dataclass(frozen=True, slots=True)
class Marks:
    """Everything that a window remembers. All instants are on the monotonic clock of one boot."""

    ranks: Mapping[str, RankMark] = field(default_factory=dict)
    clients: Clients = field(default_factory=Clients)
    answers: Answers = field(default_factory=Answers)
    canaries: Canaries = field(default_factory=Canaries)
    effort: Effort = field(default_factory=Effort)
    xids: tuple[XidSeen, ...] = ()
    failed: tuple[Instant, ...] = ()
    """When each of the window's `failures` was written."""
    oom_kills: int | None = None
    """Kills by the kernel for memory since this generation was first seen."""
    host_oom: bool = False
    """The kernel killed something on this host for memory between the last look at the running container and its end:
    another's process may have been meant."""
    since: Instant | None = None
    """When this window began: the first sample, or the one after a gap in which nobody looked."""
    excused: Instant | None = None
    """When silence was last to be expected: asleep, paused, compilers at work within their limit."""
    blind: tuple[str, ...] = ()
    """Signals that the engine's version does not export, by the last good scrape."""

    @property
    def progressed(self) -> Instant | None:
        """When any rank last made progress."""
        times = [mark.progressed for mark in self.ranks.values()]
        return max(times, key=lambda time: time.mono) if times else None
