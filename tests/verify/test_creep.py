"""Memory that only grows, told from memory that follows the load."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from agent.verify.creep import Growth, creeping, grow

GIB = 1 << 30
HOUR = 3600.0
SPAN = 1800.0
DAY = 86_400.0
LEAST = 4 * GIB


def after(hours: float, held: Callable[[float], float | None]) -> Growth | None:
    """A look a minute; `held`: seconds since it was ready → bytes."""
    growth: Growth | None = None
    for second in range(0, int(hours * HOUR) + 1, 60):
        found = held(float(second))
        growth = grow(growth, None if found is None else int(found), 1000.0 + second, SPAN, DAY)
    return growth


def warm(second: float) -> float:
    return (20 + 10 * min(1.0, second / SPAN)) * GIB


@pytest.mark.parametrize(
    ("held", "hours", "creeps"),
    [
        pytest.param(lambda s: warm(s) + 8 * GIB * (1 - math.cos(2 * math.pi * s / DAY)), 24 * 10, False, id="days"),
        pytest.param(lambda s: warm(s) + 64 * GIB * min(1.0, s / (4 * HOUR)), 24 * 10, False, id="a cache that fills"),
        pytest.param(lambda s: warm(s) + 64 * GIB * min(1.0, s / (4 * HOUR)), 60, False, id="the same, two days old"),
        pytest.param(
            lambda s: warm(s) + 0.4 * GIB * max(0.0, s - SPAN) / HOUR - 20 * GIB * (s > 80 * HOUR),
            81,
            False,
            id="given back at last",
        ),
        pytest.param(warm, 48, False, id="warms up and stays"),
        pytest.param(lambda s: warm(s) + 0.4 * GIB * max(0.0, s - SPAN) / HOUR, 75, True, id="ten GiB a day"),
        pytest.param(lambda s: warm(s) + 0.25 * GIB * max(0.0, s - SPAN) / HOUR, 10, False, id="too little so far"),
        pytest.param(lambda s: warm(s) + 20 * GIB * (math.sin(s / 600) > 0.9), 48, False, id="bursts of load"),
        pytest.param(lambda s: warm(s) + 6 * GIB * (s > 3 * HOUR), 24 * 30, False, id="one step, long ago"),
        pytest.param(lambda s: warm(s) + 20 * GIB * (s > 40 * HOUR), 40.2, False, id="a load that has just begun"),
        pytest.param(lambda s: None, 48, False, id="never known"),
    ],
)
def test_only_what_grows_and_does_not_come_back_counts(
    held: Callable[[float], float | None], hours: float, creeps: bool
) -> None:
    said = creeping(after(hours, held), 100.0 * GIB, LEAST)
    assert bool(said) is creeps, said


def test_the_sentence_has_its_numbers() -> None:
    said = creeping(after(75, lambda s: warm(s) + 0.5 * GIB * max(0.0, s - SPAN) / HOUR), 100.0 * GIB, LEAST)
    assert "hold 24." in said
    assert "100 GiB that are left last" in said


def test_a_look_that_is_not_known_changes_nothing() -> None:
    """Neither a fall to zero nor a new beginning."""
    leak = lambda s: warm(s) + 0.5 * GIB * max(0.0, s - SPAN) / HOUR  # noqa: E731
    whole = after(75, leak)
    holed = after(75, lambda s: None if int(s / 60) % 3 == 1 else leak(s))
    assert whole is not None
    assert holed is not None
    assert abs(whole.grown - holed.grown) < GIB / 4


def test_without_knowing_what_is_left_nothing_is_said() -> None:
    growth = after(75, lambda s: warm(s) + 0.5 * GIB * max(0.0, s - SPAN) / HOUR)
    assert creeping(growth, None, LEAST) == ""
    assert creeping(growth, 0.0, LEAST) != ""
    assert creeping(growth, 1e15, LEAST) == ""
