"""A card that travels as JSON arrives as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.adapters.nvml_wire import decode_card, decode_shares
from agent.clock import Instant
from agent.host.gpu import (
    READINGS,
    ComputeCapability,
    ComputeMode,
    Gpu,
    GpuProcess,
    Identity,
    Mig,
    MigInstance,
    RecoveryAction,
    RemappedRows,
)
from agent.host.reading import Known, Unknown
from agent.quantity import Bytes

AT = Instant(mono=5.0, wall=1_800_000_000.0)
UNSAID = Unknown("not supported by this card", unsupported=True)
GONE = Gpu.gone(Identity(3, "GPU-3", "00000000:44:00.0", "card"), "fallen off the bus")

VALUES: dict[str, Any] = {
    "minor": 3,
    "memory_total": Bytes.gib(64),
    "memory_used": Bytes(0),
    "memory_reserved": Bytes.mib(615),
    "unified_memory": False,
    "compute_capability": ComputeCapability(12, 1),
    "architecture": "blackwell",
    "utilization": 0.97,
    "power_w": 135.5,
    "power_limit_w": 250.0,
    "temperature_c": 61,
    "sm_clock_mhz": 1410,
    "sm_clock_max_mhz": 1410,
    "memory_clock_mhz": 1215,
    "memory_clock_max_mhz": 1215,
    "throttle": ("sw_power_cap",),
    "pcie_width": 4,
    "pcie_width_max": 16,
    "pcie_generation": 1,
    "pcie_generation_max": 4,
    "mig": Mig(True, False, (MigInstance("MIG-1", 1, 0, Known(Bytes.gib(40), AT), UNSAID),)),
    "compute_mode": ComputeMode.EXCLUSIVE_PROCESS,
    "ecc": True,
    "ecc_uncorrected": 2,
    "remapped_rows": RemappedRows(1, 2, pending=True, failed=False),
    "recovery_action": RecoveryAction.DRAIN_AND_RESET,
    "persistence": True,
    "xid_events": True,
    "processes": (GpuProcess(7, Known(Bytes.gib(2), AT)), GpuProcess(8, Unknown("not told"), "graphics", "1/0")),
}


def test_every_reading_has_an_example_here() -> None:
    assert set(VALUES) == set(READINGS)


@pytest.mark.parametrize("name", READINGS)
def test_a_reading_arrives_as_it_left(name: str) -> None:
    sent = replace(GONE, lost=None, **{name: Known(VALUES[name], AT)})
    arrived = decode_card(json.loads(json.dumps(sent.to_json())), AT)
    assert arrived == sent
    value = arrived.readings()[name]
    assert isinstance(value, Known)
    assert type(value.value) is type(VALUES[name])


def test_a_lost_card_arrives_lost_and_what_is_never_there_stays_so() -> None:
    sent = replace(GONE, ecc=UNSAID)
    arrived = decode_card(json.loads(json.dumps(sent.to_json())), AT)
    assert arrived == sent
    assert arrived.ecc == UNSAID


# What a real H200 with driver 580.159.04 answered, idle and with one process that computes.
RECORDED = json.loads((Path(__file__).parents[1] / "lab/nvml/recorded_h200.json").read_text())


@pytest.mark.parametrize("when", ["idle", "busy"])
def test_a_real_card_of_today_leaves_nothing_unknown(when: str) -> None:
    (document,) = RECORDED[when]
    card = decode_card(document, AT)
    assert card.to_json() == document
    assert [name for name, reading in card.readings().items() if isinstance(reading, Unknown)] == []


def test_a_real_idle_card_uses_nothing_though_the_driver_keeps_a_reserve() -> None:
    card = decode_card(RECORDED["idle"][0], AT)
    assert (card.memory_used, card.memory_reserved) == (Known(Bytes(0), AT), Known(Bytes(644_939_776), AT))


def test_who_computed_arrives_with_pids_as_numbers() -> None:
    """JSON has no numbers as keys."""
    there = {"uuid": "GPU-0", "shares": [[7, 0.6], [8, 0.03]], "unknown": {}, "unsupported": []}
    missing = {"uuid": "GPU-1", "shares": None, "unknown": {"shares": "no permission"}, "unsupported": []}
    assert decode_shares(json.loads(json.dumps([there, missing])), AT) == {
        "GPU-0": Known({7: 0.6, 8: 0.03}, AT),
        "GPU-1": Unknown("no permission"),
    }
