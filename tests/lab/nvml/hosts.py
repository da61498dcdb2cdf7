"""Hosts as the stand-in library shows them: plain documents that a test may change before and while they are shown.

Codes in `error`, `errors` and `event_types` are NVML's own (15: GPU is lost; mask 8: Xid events). A key that a card
lacks is one that it does not support. Sizes are bytes, powers milliwatts, as NVML gives them. `shares` has who
computed: `{"pid": 7, "sm": 60, "age": 2}` for 60 % of the time, two seconds ago.
"""

from __future__ import annotations

import copy
from typing import Any

Document = dict[str, Any]

GIB = 1 << 30
MIB = 1 << 20
XID_EVENTS = 0x8
RECOVERY_EVENTS = 0x8000
NOT_SUPPORTED, GPU_IS_LOST, VERSION_MISMATCH, UNKNOWN_ERROR = 3, 15, 18, 999


def host(*cards: Document, driver: str = "610.57.04", cuda: int = 13030) -> Document:
    """A host with these cards; NVML's own version carries CUDA's major number in front."""
    return {"driver": driver, "nvml": f"{cuda // 1000}.{driver}", "cuda": cuda, "cards": list(cards), "events": []}


def card(index: int, name: str, memory: int, **more: Any) -> Document:
    """A healthy idle card with every reading; `more` replaces some."""
    return {
        "name": name,
        "uuid": f"GPU-{index:08x}-1ab0-4c0d-8f00-{abs(memory) >> 20:012x}",
        "pci": f"00000000:{0x41 + index:02X}:00.0",
        "minor": index,
        "memory": {"total": memory, "used": 0, "reserved": 615 * MIB},
        "compute_capability": [8, 0],
        "architecture": 7,
        "utilization": 0,
        "power_mw": 38_000,
        "power_limit_mw": 250_000,
        "temperature": 34,
        "clocks": {"sm": 210, "memory": 1215},
        "clocks_max": {"sm": 1410, "memory": 1215},
        "throttle": 0x1,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "pcie_generation": 1,
        "pcie_generation_max": 4,
        "compute_mode": 0,
        "persistence": 1,
        "ecc": 1,
        "ecc_uncorrected": 0,
        "remapped_rows": [0, 0, 0, 0],
        "recovery_action": 0,
        "mig": {"enabled": 0, "pending": 0, "instances": []},
        "event_types": XID_EVENTS | RECOVERY_EVENTS,
        "processes": [],
        "graphics": [],
        "shares": [],
    } | more


def without(one: Document, *keys: str) -> Document:
    """The card less what it does not support."""
    return {key: value for key, value in one.items() if key not in keys}


def cmp170hx(cards: int) -> Document:
    """Mining cards with 64 GB: an A100's chip on a narrow, slow link by design, and no ECC, MIG or row remapping."""
    more = {"pcie_width": 4, "pcie_width_max": 4, "pcie_generation": 1, "pcie_generation_max": 1}
    each = (card(index, "NVIDIA CMP 170HX", 64 * GIB, **more) for index in range(cards))
    return host(*(without(one, "ecc", "ecc_uncorrected", "remapped_rows", "mig") for one in each))


def rtx_pro_6000(cards: int) -> Document:
    """Workstation Blackwells with 96 GB and a display server on the first."""
    more: Document = {"compute_capability": [12, 0], "architecture": 10, "power_limit_mw": 600_000}
    more |= {"pcie_generation_max": 5, "clocks_max": {"sm": 3090, "memory": 14001}}
    name = "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"
    shown = host(*(card(index, name, 97_887 * MIB, **copy.deepcopy(more)) for index in range(cards)))
    shown["cards"][0]["graphics"] = [{"pid": 1001, "memory": 4 * MIB}]
    shown["cards"][0]["memory"]["used"] = 4 * MIB
    return shown


def gb10() -> Document:
    """A DGX Spark: the card shares the host's memory, and NVML has no memory figure for it (as of driver 580.142)."""
    spark = card(0, "NVIDIA GB10", 0, compute_capability=[12, 1], architecture=10, pci="0000000F:01:00.0")
    spark["processes"] = [{"pid": 4121, "memory": 30 * GIB}]
    lacks = ("memory", "power_limit_mw", "ecc", "ecc_uncorrected", "remapped_rows", "mig")
    return host(without(spark, *lacks), driver="580.142", cuda=13000)


def a100_mig() -> Document:
    """One A100 in two slices: utilization is not there for a sliced card."""
    name = "NVIDIA A100-SXM4-80GB"
    slices = [
        {
            "uuid": f"MIG-0000000{number}-5fe2-5bd5-9a5c-0f9b7e2d10c4",
            "gpu_instance": number,
            "compute_instance": 0,
            "memory": {"total": 40_192 * MIB, "used": used, "reserved": 0},
        }
        for number, used in ((1, 20 * GIB), (2, 0))
    ]
    sliced = card(0, name, 80 * GIB, mig={"enabled": 1, "pending": 1, "instances": slices}, power_limit_mw=400_000)
    sliced["memory"]["used"] = 20 * GIB
    sliced["processes"] = [{"pid": 777, "memory": 20 * GIB, "gpu_instance": 1, "compute_instance": 0}]
    return host(without(sliced, "utilization"), driver="580.159.04", cuda=13000)


def lost_card(cards: int = 4, lost: int = 2) -> Document:
    """CMP 170HX of which one has fallen off the bus: NVML lists it, and it answers nothing."""
    shown = cmp170hx(cards)
    shown["cards"][lost]["error"] = GPU_IS_LOST
    return shown
