"""Could the cards have done that? A result above what they allow is a measuring error (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.host.known_cards import by_name


@dataclass(frozen=True, slots=True)
class Card:
    """Dense FP16 or BF16 tensor peak in FLOP/s, the higher one, and memory bandwidth in bytes/s, from NVIDIA's data
    sheets. `narrow`: how many times the peak is at its narrowest number format that inference uses (FP8 or INT8: 2,
    FP4: 4)."""

    flops: float
    bandwidth: float
    narrow: float = 2.0


# Where cards of one name differ, the fastest counts, so that it errs on the side of believing: GH200 with HBM3e, the
# CMP 170HX (a GA100 with HBM2e) with the A100's full rates, GeForce cards with sums in FP16, which llama.cpp asks for
# (twice their rate with sums in FP32).
CARDS: dict[str, Card] = {
    "B200": Card(2250e12, 8.0e12, narrow=4.0),
    "GB200": Card(2500e12, 8.0e12, narrow=4.0),
    "GB10": Card(125e12, 0.273e12, narrow=4.0),
    "H200": Card(989e12, 4.8e12),
    "GH200": Card(989e12, 4.9e12),
    "H100": Card(989e12, 3.35e12),
    "H100 NVL": Card(989e12, 3.94e12),
    "A100": Card(312e12, 2.04e12),
    "CMP 170HX": Card(312e12, 2.04e12),
    "L40S": Card(362e12, 0.864e12),
    "RTX PRO 6000": Card(503e12, 1.79e12, narrow=4.0),
    "RTX 5090": Card(419e12, 1.79e12, narrow=4.0),
    "RTX 4090": Card(330e12, 1.01e12),
    "RTX 3090": Card(142e12, 0.936e12),
    "RTX 3090 Ti": Card(160e12, 1.01e12),
}
WIDE_BITS = 16.0


@dataclass(frozen=True, slots=True)
class Model:
    """What of a model bounds its rates; None is unknown. `how`: where the count is from, `why_unknown`: why it is not
    there. `steps`: tokens that one pass may give (1 and the speculated ones)."""

    active_parameters: float | None = None
    how: str = ""
    why_unknown: str = ""
    bits: float | None = None
    steps: int = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """All cards together. None where the cards or the model are not known: then nothing is rejected, and said so."""

    flops: float | None
    active_parameters: float | None
    bandwidth: float | None = None
    bits: float | None = None
    steps: int = 1
    how: str = ""
    missing: tuple[str, ...] = field(default=())
    """What is not known, in words."""

    def rejects(self, metric: str, value: float, concurrency: int = 1) -> str | None:
        """Why a rate cannot be true; None where it can, or where nobody can say."""
        if metric == "ttft_ms" or self.active_parameters is None:
            return None
        if self.computed is not None and value > self.computed:
            return f"{value:,.0f} tok/s is above the {self.computed:,.0f} tok/s that these cards can compute: {ERROR}"
        if metric == "decode_tok_s" and self.read is not None and value > (most := concurrency * self.read):
            return f"{value:,.0f} tok/s is above the {most:,.0f} tok/s for which these cards can read weights: {ERROR}"
        return None

    @property
    def computed(self) -> float | None:
        """Tokens a second: two operations a parameter and token is the least that a token costs."""
        if self.flops is None or self.active_parameters is None:
            return None
        return self.flops / (2 * self.active_parameters)

    @property
    def read(self) -> float | None:
        """Tokens a second of one request: each pass reads what it multiplies by at least once. Requests at one time
        may share a pass, so together they reach at most so many times as much."""
        if self.bandwidth is None or self.active_parameters is None or self.bits is None:
            return None
        return self.steps * self.bandwidth / (self.active_parameters * self.bits / 8)


ERROR = "a measuring error"


def limits_of(names: tuple[str, ...], model: Model) -> Limits:
    """By the product names of the deployment's cards; one that is not known leaves the limits open."""
    found = [by_name(name, CARDS) for name in names]
    cards = [card for card in found if card is not None]
    missing = [] if model.active_parameters is not None else [model.why_unknown or "the model's active parameters"]
    if not names:
        missing.append("the deployment has no cards whose peak is known")
    missing += [f"the peak of {name}" for name, card in zip(names, found, strict=True) if card is None]
    if model.bits is None and model.active_parameters is not None:
        missing.append("bits a weight, so that reading them is not held against the memory's bandwidth")
    known = bool(cards) and len(cards) == len(names)
    wide = model.bits is not None and model.bits >= WIDE_BITS
    return Limits(
        flops=sum(card.flops * (1 if wide else card.narrow) for card in cards) if known else None,
        active_parameters=model.active_parameters,
        bandwidth=sum(card.bandwidth for card in cards) if known else None,
        bits=model.bits,
        steps=model.steps,
        how=model.how,
        missing=tuple(missing),
    )


def limits_json(limits: Limits) -> dict[str, object]:
    """For the report: what was held against, and what could not be."""
    return {
        "active_parameters": limits.active_parameters,
        "how": limits.how,
        "computable_tok_s": limits.computed,
        "readable_tok_s": limits.read,
        "not_known": list(limits.missing),
    }


def limits_text(limits: dict[str, object]) -> str:
    """One line for people."""
    most = limits.get("computable_tok_s")
    missing = limits.get("not_known")
    unknown = "; ".join(map(str, missing)) if isinstance(missing, list) else ""
    if not isinstance(most, int | float):
        return f"not applied, unknown: {unknown}"
    told = f"{most:,.0f} tok/s by computing"
    read = limits.get("readable_tok_s")
    told += f", {read:,.0f} tok/s a request by reading weights" if isinstance(read, int | float) else ""
    return f"{told} ({limits['how']})" + (f"; unknown: {unknown}" if unknown else "")
