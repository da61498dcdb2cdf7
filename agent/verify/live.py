"""Normal traffic held against the claims (pure): is the engine slower than its recipe says, and why would it be?

Traffic is no measurement: its contexts and its prompts are nobody's choice. So a claim is only compared where traffic
was steady, with the least that it promises, and slowness alone is never told: a second sign has to name its cause.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.plan.model import Claim
from agent.verdict.figures import RATE_S

LOW, BACK = 0.6, 0.7
"""Below the first it is slow, above the second no longer; in between nothing changes."""
LOW_FOR_S = 600.0
LONGEST_STEP_S = 60.0
"""A longer pause between two looks counts as this much: what nobody saw was not slow."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look: `at` in seconds of a monotonic clock, the verdict's figures, tokens that the KV cache holds."""

    at: float
    figures: Mapping[str, Any]
    kv_tokens: float | None = None

    def number(self, name: str) -> float | None:
        value = self.figures.get(name)
        return float(value) if isinstance(value, int | float) else None

    @property
    def context(self) -> float | None:
        """Tokens of context a request holds on average; None where the engine does not say what it holds."""
        usage, running = self.number("kv_cache_usage_ratio"), self.number("requests_running")
        return usage * self.kv_tokens / running if usage and running and self.kv_tokens else None


@dataclass(frozen=True, slots=True)
class Compared:
    """The rate of all requests together, against the claim that comes nearest from below."""

    claim: Claim
    rate: float
    together: int
    context: float | None

    @property
    def ratio(self) -> float:
        return self.rate / self.claim.value

    @property
    def point(self) -> str:
        """`live decode c8 @32768`: the label of `claim_ratio`."""
        where = f" @{self.claim.context}" if self.claim.context is not None else ""
        return f"live decode c{self.claim.concurrency}{where}"


@dataclass(frozen=True, slots=True)
class Course:
    """What one run of an engine showed so far. `slow_s`: seconds of traffic below the limit, good ones set it to 0."""

    running: tuple[tuple[float, float], ...] = ()
    """(when, requests) over the time that a rate is taken over."""
    last: float | None = None
    slow_s: float = 0.0
    best_acceptance: float | None = None
    told: bool = False

    @property
    def slow(self) -> bool:
        return self.slow_s >= LOW_FOR_S


def step(course: Course, look: Look, claims: Iterable[Claim]) -> tuple[Course, Compared | None]:
    """The course with one look more, and the comparison where there is one; what is unknown changes nothing."""
    running = look.number("requests_running")
    kept = tuple(one for one in course.running if look.at - one[0] <= RATE_S)
    seen = replace(
        course,
        running=(*kept, (look.at, running)) if running is not None else (),
        last=look.at,
        best_acceptance=best(course.best_acceptance, look.number("spec_decode_acceptance_ratio")),
    )
    compared = compare(course, seen, look, claims)
    if compared is None or LOW <= compared.ratio < BACK:
        return seen, compared
    passed = 0.0 if course.last is None else min(look.at - course.last, LONGEST_STEP_S)
    return replace(seen, slow_s=seen.slow_s + passed if compared.ratio < LOW else 0.0), compared


def best(before: float | None, now: float | None) -> float | None:
    known = [value for value in (before, now) if value is not None]
    return max(known) if known else None


def compare(before: Course, now: Course, look: Look, claims: Iterable[Claim]) -> Compared | None:
    """The rate against a claim, where requests ran in every look of the time that the rate is taken over.

    Requests that come and go water a rate down, and no claim is about that.
    """
    rate = look.number("decode_tokens_per_second")
    whole = bool(before.running) and look.at - before.running[0][0] >= RATE_S * 0.8
    if rate is None or not now.running or not whole:
        return None
    together = int(min(requests for _, requests in now.running))
    claim = nearest(claims, together, look.context)
    return None if claim is None else Compared(claim, rate, together, look.context)


def nearest(claims: Iterable[Claim], together: int, context: float | None) -> Claim | None:
    """The claim with the most requests that are not more than there are: more together never decode less.

    Of several contexts the one nearest to what requests hold; where that is not known, the least that is claimed.
    """
    fit = [
        claim
        for claim in claims
        if claim.metric == "decode_tok_s" and claim.concurrency is not None and 1 <= claim.concurrency <= together
    ]
    most = max((claim.concurrency or 0 for claim in fit), default=0)
    fit = [claim for claim in fit if claim.concurrency == most]
    stated = [claim for claim in fit if claim.context is not None]
    if context is not None and stated:
        return min(stated, key=lambda claim: (distance(claim.context, context), claim.value))
    return min(fit, key=lambda claim: claim.value, default=None)


def distance(claimed: int | None, held: float) -> float:
    return abs(math.log((claimed or 1) / max(1.0, held)))
