"""When looks are due."""

from __future__ import annotations

import pytest

from agent.daemon.beat import LEAST_S, SOONEST, due_in


@pytest.mark.parametrize("first", [100.0, 101.3, 107.4, 109.96])
def test_deployments_of_one_period_come_to_look_at_one_moment(first: float) -> None:
    period, now, looks = 10.0, first, []
    for _ in range(4):
        now += due_in(now, now, period)
        looks.append(now)
    assert all(look % period == pytest.approx(0.0) for look in looks)
    assert looks[2] - looks[1] == looks[3] - looks[2] == period


@pytest.mark.parametrize("late", [-0.04, 0.0, 0.03, 2.0])
def test_a_look_that_comes_early_or_late_moves_no_later_one(late: float) -> None:
    assert 120.0 + late + due_in(120.0 + late, 120.0 + late, 10.0) == pytest.approx(130.0)


def test_looks_are_neither_crowded_nor_far_apart() -> None:
    period = 10.0
    pauses = [due_in(at / 7, at / 7, period) for at in range(7000)]
    assert min(pauses) >= SOONEST * period
    assert max(pauses) <= (1 + SOONEST) * period


def test_what_is_overdue_is_due_at_once() -> None:
    assert due_in(100.0, 250.0, 10.0) == LEAST_S
