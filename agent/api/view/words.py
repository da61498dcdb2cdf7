"""Numbers and states as people read them."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from agent.action.record import State
from agent.api.view.html import Html, tag
from agent.clock import timestamp

UNKNOWN = "unknown"
GIB = 2**30
GOOD = frozenset({State.READY, State.BUSY})
BAD = frozenset({State.STALLED, State.ZOMBIE, State.DEAD, State.FAILED, State.QUARANTINED})
DOUBT = frozenset({State.SUSPECT, State.UNOBSERVABLE})
REST = frozenset({State.STOPPED, State.ASLEEP})
SIGNS = {"good": "●", "bad": "✖", "doubt": "▲", "rest": "■", "work": "◔"}
"""A shape beside every colour: no meaning by colour alone."""


def mood(state: str) -> str:
    """`good`, `bad`, `doubt`, `rest`, else `work`: on its way."""
    for name, states in (("good", GOOD), ("bad", BAD), ("doubt", DOUBT), ("rest", REST)):
        if state in states:
            return name
    return "work"


def count(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def percent(ratio: float | None) -> str:
    if ratio is None:
        return UNKNOWN
    return f"{ratio:.1%}" if 0.0005 <= ratio < 0.1 else f"{ratio:.0%}"


def gibibytes(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value / GIB:.1f}"


def span(seconds: float) -> str:
    """`12 s`, `7 min`, `3 h 5 min`, `4 d 2 h`."""
    seconds = max(0.0, seconds)
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = math.floor(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, days = minutes // 60, minutes // 1440
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{days} d {hours % 24} h"


def moment(at: float, now: float) -> Html:
    """A time of day in UTC, with its date where it is not today's."""
    then, today = datetime.fromtimestamp(at, UTC), datetime.fromtimestamp(now, UTC).date()
    shown = then.strftime("%H:%M:%S" if then.date() == today else "%d %b %H:%M")
    return tag("time", shown, datetime=timestamp(at), title=timestamp(at))
