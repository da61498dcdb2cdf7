"""What a folder of weights says of its own form (`config.json`), and whether its tensors are of that form (pure).

ExLlamaV3 packs each linear layer as `NAME.trellis` with its signs and scales (`suh`, `svh`) beside it; a folder whose
configuration says `exl3` and that has none of them is the original, or a pack that was converted halfway.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from typing import Any

CONFIG = "config.json"
MOST_CONFIG = 10_000_000
METHOD = "exl3"
TRELLIS = b'.trellis"'


@dataclass(frozen=True, slots=True)
class Quantised:
    """`quantization_config` of a configuration: `exl3`, `fp8`, `awq`, … and bits a weight where it says."""

    method: str
    bits: float | None = None

    def __str__(self) -> str:
        return f"{self.method}, {self.bits:g} bits" if self.bits is not None else self.method


def stated(config: bytes) -> Quantised | None:
    """None where the configuration states no quantisation, or cannot be read."""
    try:
        document = json.loads(config)
        own = document.get("quantization_config") or {}
        method = str(own.get("quant_method") or "")
    except (ValueError, RecursionError, AttributeError):
        return None
    return Quantised(method, number(own.get("bits"))) if method else None


def number(value: Any) -> float | None:
    """None for what is none, or cannot be counted with: whole numbers in JSON may have thousands of digits."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return found if isfinite(found := float(value)) else None
    except OverflowError:
        return None


def has_packed(header: bytes) -> bool:
    """Whether a safetensors header names a tensor of the form."""
    return TRELLIS in header
