"""What a real H200 answered: empty, held by an idle process, spinning, waiting and at work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.adapters.nvml_wire import decode_card
from agent.clock import Instant
from agent.host.gpu import Gpu
from agent.host.reading import Unknown, value_of
from agent.verdict.cards import SPIN_LOAD, SPIN_POWER, WORK_POWER

RECORDED = json.loads((Path(__file__).parents[1] / "lab/nvml/recorded_h200_load.json").read_text())
AT = Instant(mono=1.0, wall=2.0)


def card(when: str) -> Gpu:
    (document,) = RECORDED[when]
    return decode_card(document, AT)


def watts(when: str) -> float:
    power = value_of(card(when).power_w)
    assert power is not None
    return power


@pytest.mark.parametrize("when", ["nothing", "idle", "work", "spin", "poll"])
def test_every_reading_is_there_under_every_load(when: str) -> None:
    assert [name for name, reading in card(when).readings().items() if isinstance(reading, Unknown)] == []
    assert len(value_of(card(when).processes) or ()) == (0 if when == "nothing" else 1)


@pytest.mark.parametrize("when", ["spin", "poll"])
def test_a_kernel_that_gets_nowhere_is_busy_at_the_power_of_a_held_card(when: str) -> None:
    assert (value_of(card(when).utilization) or 0.0) >= SPIN_LOAD
    assert watts(when) <= SPIN_POWER * watts("idle")


def test_work_draws_clearly_more() -> None:
    assert watts("work") >= WORK_POWER * watts("idle")


def test_an_empty_card_draws_less_than_one_that_is_held() -> None:
    """So idle power has to be learned while the engine idles: against an empty card, spinning looks like work."""
    assert watts("spin") > WORK_POWER * watts("nothing")
