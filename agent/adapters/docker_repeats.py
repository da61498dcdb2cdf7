"""Lines that a followed log gives out twice (pure).

When an Engine rotates a log that somebody follows, its reader may begin the file anew and give out again what it gave
before: up to a whole file (seen on 20.10 with `json-file` and with `local`). The Engine stamps every line with its
clock as it comes in, to the nanosecond and always in the same form, so stamps are compared as text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from agent.adapters.docker_views import seconds_of

KEPT = 4096
"""Lines that are known one by one; below the oldest of them the stamp alone decides."""
SET_BACK_S = 1.0
"""A newest stamp that lies further ahead of the clock than this: the clock was set back, and new lines look old."""

Key = tuple[bytes, int, int]
"""Stamp, stream, and a hash of the text: lines may be long."""


class Repeats:
    """What was given out lately. `clock`: seconds since the epoch, the Engine's own (it is on this host)."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._newest = b""
        self._order: deque[Key] = deque()
        self._known: set[Key] = set()
        self._forgot = False

    def is_new(self, stamp: bytes, stream: int, text: bytes) -> bool:
        """Whether this line has not been given out before; it counts as given out from now on."""
        key = (stamp, stream, hash(text))
        if stamp <= self._newest and self._was(key):
            return False
        self._keep(key)
        return True

    def _was(self, key: Key) -> bool:
        if key in self._known:
            return True
        if not self._forgot or key[0] >= self._order[0][0]:
            return False  # the two streams of a container may be a little out of order
        ahead = (seconds_of(self._newest.decode("ascii")) or 0.0) - self._clock()
        if ahead <= SET_BACK_S:
            return True
        self._newest, self._forgot = b"", False
        self._order.clear()
        self._known.clear()
        return False

    def _keep(self, key: Key) -> None:
        self._newest = max(self._newest, key[0])
        self._order.append(key)
        self._known.add(key)
        if len(self._order) > KEPT:
            self._known.discard(self._order.popleft())
            self._forgot = True
