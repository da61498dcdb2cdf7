"""What an Xid asks for (NVIDIA's catalogue, docs.nvidia.com/deploy/xid-errors); the driver's recovery action rules."""

from __future__ import annotations

RESTART_APP = frozenset({8, 13, 31, 32, 39, 40, 41, 60, 68, 69, 71, 72, 80, 94})
"""The process that hit it must go; the card is sound (94: contained memory error)."""

RESET = frozenset({46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158})
"""The card needs a reset."""

DRAIN = frozenset({48, 74, *range(144, 151), 171, 172})
"""All work off the card, then a reset (double-bit memory errors, NVLink)."""

REBOOT = frozenset({54, 79, 154, 167})
"""The host needs a person: off the bus, power cable, recovery action changed, PCIe fatal."""

PERSON: dict[int, str] = {
    **dict.fromkeys(RESET, "the card needs a reset"),
    **dict.fromkeys(DRAIN, "the card must be drained and reset"),
    **dict.fromkeys(REBOOT, "the card or the host needs a person"),
    48: "uncorrectable memory error: the card must be drained and reset",
    79: "the card has fallen off the bus",
    95: "uncontained memory error: the card needs a reset",
    119: "the card's own processor (GSP) does not answer: it needs a reset",
    120: "the card's own processor (GSP) failed: it needs a reset",
}
"""Those that no restart of an engine can mend, in words. All others are counted, and follow or accompany another."""

RECOVERY_ACTIONS = {
    1: "reset the card",
    2: "reboot the host",
    3: "drain peer-to-peer traffic",
    4: "drain and reset the card",
    5: "recover the IMEX domain",
    6: "reset the bus",
    7: "reboot the system",
}
"""NVML's field 230 (GPU recovery action); 0 is none."""
