"""Cycles that each lose memory end before the host does; what merely goes up and down does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.action.leak import leak
from agent.action.record import Deployment, Held, State
from agent.quantity import Bytes
from tests.action.test_decide import fresh
from tests.action.world import World, fault

GIB = 1 << 30


def hosts(*gib: float | None) -> list[Held]:
    return [Held(host=None if one is None else int(one * GIB)) for one in gib]


def cards(*mib: int) -> list[Held]:
    return [Held(cards={"GPU-1": one << 20}, owned={"GPU-1": 0}) for one in mib]


def beside(*gib: tuple[float, float, float]) -> list[Held]:
    """Available, of processes, of tmpfs."""
    return [Held(host=int(a * GIB), anonymous=int(b * GIB), shared=int(c * GIB)) for a, b, c in gib]


def taken(*mib: tuple[int, int | None]) -> list[Held]:
    """In use on a card, and of living processes."""
    return [Held(cards={"GPU-1": used << 20}, owned={} if had is None else {"GPU-1": had << 20}) for used, had in mib]


@pytest.mark.parametrize(
    ("starts", "found"),
    [
        (hosts(110, 100, 90), True),
        (hosts(120, 110, 100, 90), True),
        (hosts(110, 100), False),
        (hosts(110, 100, 105), False),
        (hosts(110, 109.8, 109.6), False),
        (hosts(90, 100, 110), False),
        (hosts(110, None, 90), False),
        (cards(10, 2000, 4000), True),
        (cards(10, 100, 190), False),
        (cards(4000, 2000, 10), False),
        (beside((110, 5, 1), (100, 15, 1), (90, 25, 1)), False),  # another program grows
        (beside((110, 5, 1), (100, 5, 11), (90, 5, 21)), False),  # weights are copied into tmpfs
        (beside((110, 5, 1), (100, 6, 1), (90, 7, 1)), True),  # it explains a tenth of it
        ([*beside((110, 5, 1), (100, 15, 1)), Held(host=90 * GIB)], True),  # one does not know of others
        (taken((10, 0), (3000, 2990), (6000, 5990)), False),  # somebody else works on the card
        (taken((10, 0), (3000, 500), (6000, 800)), True),
        (taken((10, 0), (3000, None), (6000, 0)), False),
        ([], False),
    ],
)
def test_three_starts_each_with_less_are_a_leak(starts: list[Held], found: bool) -> None:
    assert (leak(starts) is not None) is found


def test_the_third_restart_is_not_made_and_the_sentence_has_the_numbers() -> None:
    """F29: each cycle of a stalling engine costs 8 GiB; after two lost cycles a person is needed."""
    world = World(lambda _: fault(), held=lambda started: Held(host=(110 - 8 * started) * GIB))
    record = world.run(fresh(), 200)
    assert record.state is State.QUARANTINED
    assert world.created == [1, 2, 3]
    assert f"{Bytes.gib(110)}, then {Bytes.gib(102)}, then {Bytes.gib(94)}" in record.why
    assert "reboot" in record.why


def test_a_reboot_begins_a_new_count() -> None:
    """What was lost is back after it."""
    world = World(lambda _: fault(), held=lambda started: Held(host=(110 - 8 * started) * GIB))
    record: Deployment = world.run(fresh(), 40)
    assert len(record.starts) >= 2
    world.boot = "boot-2"
    record = world.run(replace(record, state=State.PENDING), 1)
    assert record.starts == ()
