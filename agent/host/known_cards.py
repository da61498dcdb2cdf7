"""Compute capability by product name, for a driver that does not say it (pure; NVIDIA's "CUDA GPU Compute Capability").

Names are matched as words, the longer before the shorter; a name that is not here stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TypeVar

from agent.host.gpu import ComputeCapability

Known = TypeVar("Known")

_BY_NAME: dict[str, tuple[int, int]] = {
    "GB10": (12, 1),
    "GB300": (10, 3),
    "B300": (10, 3),
    "GB200": (10, 0),
    "B200": (10, 0),
    "B100": (10, 0),
    "RTX PRO 6000 Blackwell": (12, 0),
    "RTX PRO 5000 Blackwell": (12, 0),
    "RTX PRO 4500 Blackwell": (12, 0),
    "RTX PRO 4000 Blackwell": (12, 0),
    "RTX 5090": (12, 0),
    "RTX 5080": (12, 0),
    "RTX 5070": (12, 0),
    "RTX 5060": (12, 0),
    "GH200": (9, 0),
    "H200": (9, 0),
    "H100": (9, 0),
    "H800": (9, 0),
    "H20": (9, 0),
    "L40S": (8, 9),
    "L40": (8, 9),
    "L20": (8, 9),
    "L4": (8, 9),
    "RTX 6000 Ada": (8, 9),
    "RTX 5000 Ada": (8, 9),
    "RTX 4500 Ada": (8, 9),
    "RTX 4000 Ada": (8, 9),
    "RTX 4090": (8, 9),
    "RTX 4080": (8, 9),
    "RTX 4070": (8, 9),
    "RTX 4060": (8, 9),
    "RTX A6000": (8, 6),
    "RTX A5000": (8, 6),
    "RTX A4000": (8, 6),
    "RTX 3090": (8, 6),
    "RTX 3080": (8, 6),
    "RTX 3070": (8, 6),
    "RTX 3060": (8, 6),
    "A40": (8, 6),
    "A16": (8, 6),
    "A10": (8, 6),
    "A10G": (8, 6),
    "A2": (8, 6),
    "CMP 170HX": (8, 0),
    "A100": (8, 0),
    "A800": (8, 0),
    "A30": (8, 0),
    "T4": (7, 5),
    "RTX 2080": (7, 5),
    "V100": (7, 0),
    "P100": (6, 0),
    "P40": (6, 1),
}


def by_name(name: str, table: Mapping[str, Known]) -> Known | None:
    """The entry of the longest of the table's names that stands in `name` as a word; None where none does."""
    found = [known for known in table if pattern(known).search(name)]
    return table[max(found, key=len)] if found else None


@cache
def pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", re.IGNORECASE)


def capability_by_name(name: str) -> ComputeCapability | None:
    """What a card of this product name has (`NVIDIA A100-SXM4-80GB` → 8.0); None for a name that is not known."""
    found = by_name(name, _BY_NAME)
    return ComputeCapability(*found) if found else None
