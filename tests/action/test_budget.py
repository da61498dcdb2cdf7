"""How often a deployment, and all of a host together, may be restarted."""

from __future__ import annotations

import pytest

from agent.action.budget import Budget, HostBudget


@pytest.mark.parametrize(("spent", "wait"), [(0, 0.0), (1, 10.0), (2, 30.0), (3, 30.0)])
def test_the_first_restart_does_not_wait_and_later_ones_do(spent: int, wait: float) -> None:
    assert Budget(spent, 3, (10.0, 30.0)).wait == wait


def test_jitter_adds_to_a_wait_and_never_to_none() -> None:
    assert Budget(1, 3, (10.0,), jitter=0.1).wait == pytest.approx(11.0)
    assert Budget(0, 3, (10.0,), jitter=0.1).wait == 0.0


@pytest.mark.parametrize(
    ("restarted", "now", "wait"),
    [
        ((), 0.0, 0.0),
        ((0.0,), 10.0, 0.0),
        ((0.0, 5.0), 10.0, 90.0),
        ((0.0, 5.0, 7.0), 10.0, 95.0),
        ((0.0, 5.0), 101.0, 0.0),
    ],
)
def test_the_host_waits_until_enough_restarts_are_long_ago(
    restarted: tuple[float, ...], now: float, wait: float
) -> None:
    assert HostBudget(2, 100.0).wait(restarted, now) == wait
