"""A pull in words: layers, bytes, rate and time left, folded from what the runtime says (pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from agent.image.port import Fetched
from agent.quantity import Bytes, say_duration

WINDOW_S = 15.0
"""The rate is that of the last so many seconds: long enough for layers that come in bursts, short enough to notice."""
SHORTEST_S = 1.0


class Pace:
    """Bytes per second over the last while."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, now: float, done: int) -> float | None:
        """The rate with `done` bytes there at `now` (seconds of any one clock); None while too little is known."""
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= WINDOW_S:
            self._seen.popleft()
        began, had = self._seen[0]
        return (done - had) / (now - began) if now - began >= SHORTEST_S else None


def describe(reference: str, fetched: Fetched, rate: float | None) -> Mapping[str, Any]:
    """`pulling IMAGE: 3 of 12 layers, 4.2 of 18.0 GiB, 85 MiB/s, 3 min 20 s left`."""
    parts = [_layers(fetched), _bytes(fetched), _speed(fetched, rate)]
    said = ", ".join(part for part in parts if part) or fetched.text.lower() or "asking the registry"
    stage = f"pulling {reference}"
    return {"text": f"{stage}: {said}", "ratio": ratio_of(fetched), "stage": stage}


def ratio_of(fetched: Fetched) -> float | None:
    """How much of the known bytes is there; what is fetched is still to be unpacked, so it ends just below 1."""
    if not fetched.total:
        return None
    return min(fetched.done / fetched.total, 1.0 if fetched.layers_done == fetched.layers else 0.99)


def _layers(fetched: Fetched) -> str:
    return f"{fetched.layers_done} of {fetched.layers} layers" if fetched.layers else ""


def _bytes(fetched: Fetched) -> str:
    if fetched.total is None:
        return ""
    if fetched.done >= fetched.total:
        return f"{Bytes(fetched.total)} fetched" + (", unpacking" if fetched.layers_done < fetched.layers else "")
    return f"{Bytes(fetched.done)} of {Bytes(fetched.total)}"


def _speed(fetched: Fetched, rate: float | None) -> str:
    """Nothing once all of it is here."""
    if rate is None or fetched.total is None or fetched.done >= fetched.total:
        return ""
    if rate <= 0:
        return "nothing comes"
    left = timedelta(seconds=(fetched.total - fetched.done) / rate)
    return f"{Bytes(int(rate))}/s, {say_duration(left)} left"
