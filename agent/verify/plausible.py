"""Could the cards have done that? A result above what they allow is a measuring error (pure)."""

from __future__ import annotations

from dataclasses import dataclass

# Dense BF16 tensor peak in FLOP/s and memory bandwidth in bytes/s, from NVIDIA's data sheets; CMP 170HX is a GA100 with
# HBM2e, taken as the A100's full rates, so that it errs on the side of believing.
CARDS: dict[str, tuple[float, float]] = {
    "H200": (989e12, 4.8e12),
    "H100": (989e12, 3.35e12),
    "A100": (312e12, 2.04e12),
    "CMP 170HX": (312e12, 2.04e12),
    "L40S": (362e12, 0.864e12),
    "RTX PRO 6000": (503e12, 1.79e12),
    "RTX 4090": (165e12, 1.01e12),
    "RTX 3090": (71e12, 0.936e12),
    "GB10": (125e12, 0.273e12),
    "B200": (2250e12, 8.0e12),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """All cards together. None where the cards or the model are not known: then nothing is rejected."""

    flops: float | None
    active_parameters: float | None

    def rejects(self, metric: str, value: float) -> str | None:
        """Why a rate cannot be true: two operations a parameter and token is the least that a token costs."""
        if metric == "ttft_ms" or self.flops is None or self.active_parameters is None:
            return None
        most = self.flops / (2 * self.active_parameters)
        if value <= most:
            return None
        return f"{value:,.0f} tok/s is above the {most:,.0f} tok/s that these cards can compute: a measuring error"


def limits_of(names: tuple[str, ...], active_parameters: float | None) -> Limits:
    """By the product names of the deployment's cards; one that is not known leaves the limit open."""
    peaks = [next((peak for known, peak in CARDS.items() if known in name), None) for name in names]
    known = [peak for peak in peaks if peak is not None]
    flops = sum(peak[0] for peak in known) if known and len(known) == len(peaks) else None
    return Limits(flops, active_parameters)
