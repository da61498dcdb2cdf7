"""How an engine is watched: every window, each with the arithmetic that gave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time and where it comes from. `seconds` None: not derivable, so nothing is ever done on it."""

    seconds: float | None
    how: str

    @property
    def value(self) -> float:
        """Seconds; infinite where none could be derived, so that a comparison with it never holds."""
        return float("inf") if self.seconds is None else self.seconds


@dataclass(frozen=True, slots=True)
class Watch:
    """The windows of one deployment, in seconds. Names are the profile's keys (`watch.<name>`)."""

    period: Span
    """Between two samples."""
    scrape_timeout: Span
    suspect: Span
    """Work and no progress for this long: `suspect`, nobody is told."""
    stall: Span
    """No progress for this long and a second sign: `stalled`. For engines whose steps can be seen."""
    stall_blind: Span
    """The same where no step can be seen in a prefill. None without a claim or a measurement."""
    zombie: Span
    """Two looks this far apart with no client and running requests."""
    canary_idle: Span
    """Idle for this long: ask one token."""
    canary_timeout: Span
    start_expected: Span
    start_alert: Span
    start_silence: Span
    """No log, disk, CPU or GPU memory movement for this long in a start-up: `stalled`."""
    start_limit: Span
    """A limit that the launch itself states; None otherwise."""
    refused: Span
    """Connection refused by a running container that was ready, for this long: `dead`."""
    unobservable: Span
    jit: Span
    """Allowance on top of the stall windows after ready, and while compilers run."""
    drain: Span
    term: Span
    """TERM until KILL with no client."""
    term_clients: Span
    """TERM until KILL while clients are attached."""
    kill: Span
    release: Span
    """GPU memory, port and name must be free within this."""
    healthy: Span
    """Proven ready for this long gives the restart budget back."""
    backoff: tuple[float, ...] = (10.0, 30.0, 60.0, 120.0, 300.0)
    budget: int = 3
    """Restarts since the last proven healthy time before a person is needed."""
    derived: bool = False
    """The stall windows rest on a named prefill claim, a measurement or the operator's word (else nothing is restarted
    for silence)."""
    canary_idle_timeout: Span = Span(30.0, "an idle engine answers in a second; 30 times that")
    """For the canary of an engine with nothing to do; two unanswered ones in a row are a hang."""
    standing: Span = Span(300.0, "a client that waits for nothing for 5 minutes is a keep-alive of somebody's pool")
    """Connections with nothing running for this long: who is a client can no longer be told."""
    jit_after_ready: Span = Span(900.0, "new shapes are compiled in the first quarter of an hour of traffic")
    """The stall windows are longer by `jit` for this long after ready."""
    jit_limit: Span = Span(1200.0, "twice the longest compilation at run time that was reported (10 minutes)")
    """Compilers excuse silence for this long, not longer."""
    start_jit: Span = Span(1800.0, "DeepGEMM compiles for up to 20 minutes before the first start, half as much again")
    """Compilers excuse silence in a start-up for this long."""
    warnings: tuple[str, ...] = ()
    """What a person should know about the derivation (claims that contradict each other, none at all)."""

    def spans(self) -> dict[str, Span]:
        """Every window by its key."""
        return {f.name: value for f in fields(self) if isinstance(value := getattr(self, f.name), Span)}

    def with_spans(self, spans: Mapping[str, Span]) -> Watch:
        """The same with these windows instead."""
        changed: dict[str, Any] = dict(spans)
        return replace(self, **changed)

    def to_json(self) -> dict[str, Any]:
        """`{key: {"seconds", "how"}}` of the plan; `seconds` is None where a window is none, or cannot be derived."""
        windows: dict[str, Any] = {
            key: {"seconds": span.seconds, "how": span.how} for key, span in self.spans().items()
        }
        windows["backoff"] = {
            "seconds": self.backoff[0] if self.backoff else 0.0,
            "steps": list(self.backoff),
            "how": "waits before restart 2, 3, … of one budget; the first after a proven healthy time has none",
        }
        windows["budget"] = {
            "seconds": None,
            "restarts": self.budget,
            "how": "restarts since the last proven healthy time before a person is needed",
        }
        return windows
