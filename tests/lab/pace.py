"""Bounds on what a piece of computing costs: seconds of a quiet machine, held on one that is slower or has other work.

    assert cost(lambda: read(a_megabyte)) < 1.0 * second()

Processor time of the calling thread: what others do meanwhile does not count. It still grows where a processor is
shared with them or is a slow one, so a second is as long as a piece of work of the same kind says that it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable

WORDS, QUIET_S = 200_000, 0.1
"""The work, and what it costs on a quiet machine of 2026."""


def cost(call: Callable[[], object]) -> float:
    """Processor time of this thread, in seconds."""
    began = time.thread_time()
    call()
    return time.thread_time() - began


def second() -> float:
    """How much processor time here and now is what a second is on a quiet machine; never less than one."""
    return max(1.0, cost(_work) / QUIET_S)


def _work() -> None:
    """Makes words and looks them up, as readers of text do."""
    found = {str(number): number for number in range(WORDS)}
    assert sum(found[str(number)] for number in range(WORDS)) == sum(range(WORDS))
