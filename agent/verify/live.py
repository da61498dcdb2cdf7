"""Normal traffic held against the claims (pure): is the engine slower than its recipe says, and why would it be?

Traffic is no measurement: its contexts and its prompts are nobody's choice. So a claim is only compared where traffic
was steady and the engine was busy with answers, with the least that it promises, and slowness alone is never told: a
second sign has to name its cause.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from agent.engines.model import EngineReading
from agent.plan.model import Claim
from agent.plan.windows import prefill_seconds
from agent.samples.model import Sample
from agent.verdict.figures import RATE_S

LOW, BACK = 0.6, 0.7
"""Below the first it is slow, above the second no longer; in between nothing changes."""
LOW_FOR_S = 600.0
LONGEST_STEP_S = 60.0
"""A longer pause between two looks counts as this much: what nobody saw was not slow."""
PREFILL_SHARE = 0.2
"""Of a minute, that prompts may take by their own claim: in more, too little of it is left for answers."""
PROMPT_TOKENS = 2.0
"""As many new prompt tokens a token of an answer, where nothing is claimed of prompts: what more of them cost is not
known. A conversation that goes on brings its own last answer back, and a question."""
LEVEL_S = 600.0
"""Over so much traffic the acceptance of drafts is averaged: one minute's depends on its text."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look: `at` in seconds of a monotonic clock, the verdict's figures, and totals since the engine's start."""

    at: float
    figures: Mapping[str, Any]
    made: float | None = None
    """Tokens of answers."""
    prefilled: float | None = None
    """Tokens of prompts that were computed, what a cache gave left out as far as the engine says it."""
    context: float | None = None
    """Tokens of context a request holds on average; None where the engine does not say what it holds."""

    def number(self, name: str) -> float | None:
        value = self.figures.get(name)
        return float(value) if isinstance(value, int | float) else None


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
class Traffic:
    """What one look saw of it: requests that run, and what was made and computed until then."""

    at: float
    running: float
    made: float
    prefilled: float


@dataclass(frozen=True, slots=True)
class Course:
    """What one run of an engine showed so far. `slow_s`: seconds of traffic below the limit, good ones set it to 0."""

    traffic: tuple[Traffic, ...] = ()
    """Over the time that a rate is taken over."""
    last: float | None = None
    slow_s: float = 0.0
    acceptance: float | None = None
    """Of drafts, averaged over the last `LEVEL_S` of traffic that was compared."""
    accepted_s: float = 0.0
    best_acceptance: float | None = None
    compared: Compared | None = None
    told: bool = False

    @property
    def slow(self) -> bool:
        return self.slow_s >= LOW_FOR_S


def look_of(sample: Sample, figures: Mapping[str, Any]) -> Look:
    """What a sample says of the traffic; nothing where the engine's own word was not read in it."""
    scrape = sample.scrape
    if not isinstance(scrape, EngineReading):
        return Look(sample.at.mono, {})
    ranks = scrape.apart
    computed = known([rank.prefilled for rank in ranks])
    if computed is None and (prompts := known([rank.prompt_tokens for rank in ranks])) is not None:
        computed = prompts - (scrape.cached_tokens or 0.0)
    used, running = known([rank.kv_usage for rank in ranks]), known([rank.running for rank in ranks])
    held = used / len(ranks) * scrape.kv_tokens if used and scrape.kv_tokens else None
    return Look(
        at=sample.at.mono,
        figures=figures,
        made=known([rank.made for rank in ranks]),
        prefilled=computed,
        context=held / running if held is not None and running else None,
    )


def known(values: Sequence[float | None]) -> float | None:
    """The sum over ranks, where one at least says it."""
    found = [value for value in values if value is not None]
    return sum(found) if found else None


def step(course: Course, look: Look, claims: Sequence[Claim]) -> Course:
    """The course with one look more, and its comparison where there is one; what is unknown changes nothing.

    The same look once more is none.
    """
    if course.last is not None and look.at <= course.last:
        return course
    seen = replace(course, traffic=followed(course.traffic, look), last=look.at, compared=None)
    passed = 0.0 if course.last is None else min(look.at - course.last, LONGEST_STEP_S)
    seen = without_prompts(seen, passed, claims)
    compared = compare(seen.traffic, look, claims)
    if compared is None:
        return seen
    seen = levelled(replace(seen, compared=compared), look.number("spec_decode_acceptance_ratio"), passed)
    if LOW <= compared.ratio < BACK:
        return seen
    return replace(seen, slow_s=seen.slow_s + passed if compared.ratio < LOW else 0.0)


def followed(before: tuple[Traffic, ...], look: Look) -> tuple[Traffic, ...]:
    """The traffic with this look; it begins anew where a counter fell, and where nobody knows what it is."""
    running = look.number("requests_running")
    if running is None or look.made is None or look.prefilled is None:
        return ()
    kept = tuple(one for one in before if look.at - one.at <= RATE_S)
    if kept and look.made < kept[-1].made:
        kept = ()
    return (*kept, Traffic(look.at, running, look.made, look.prefilled))


def without_prompts(course: Course, passed: float, claims: Sequence[Claim]) -> Course:
    """Prompts are counted when they are done: what looked like slow answers until then shows only now as their work."""
    if not course.slow_s or len(course.traffic) < 2:
        return course
    before, now = course.traffic[-2:]
    pace = prefill_pace(claims)
    if pace is None:
        return course if bearable(course.traffic) else replace(course, slow_s=0.0)
    hidden = max(0.0, (now.prefilled - before.prefilled) / pace - PREFILL_SHARE * passed)
    return replace(course, slow_s=max(0.0, course.slow_s - hidden))


def levelled(course: Course, now: float | None, passed: float) -> Course:
    """The course's acceptance with this look's; the best is kept once it is a level."""
    if now is None:
        return course
    before = now if course.acceptance is None else course.acceptance
    level = before + (now - before) * min(1.0, passed / LEVEL_S)
    seconds = course.accepted_s + passed
    best = max(course.best_acceptance or 0.0, level) if seconds >= LEVEL_S else course.best_acceptance
    return replace(course, acceptance=level, accepted_s=seconds, best_acceptance=best)


def compare(traffic: tuple[Traffic, ...], look: Look, claims: Sequence[Claim]) -> Compared | None:
    """The rate against a claim, where the engine made answers all the time that the rate is taken over.

    Requests that come and go water a rate down, and so do prompts; no claim is about that.
    """
    rate = look.number("decode_tokens_per_second")
    if rate is None or not traffic or look.at - traffic[0].at < RATE_S * 0.8 or not answering(traffic, claims):
        return None
    together = int(min(one.running for one in traffic))
    claim = nearest(claims, together, look.context)
    if claim is None or not math.isfinite(rate / claim.value):
        return None
    return Compared(claim, rate, together, look.context)


def answering(traffic: tuple[Traffic, ...], claims: Sequence[Claim]) -> bool:
    """Tokens came between any two looks, and prompts took little of the time.

    An engine that makes none meanwhile computes a prompt, sleeps or stalls, or counts them when a request ends: that is
    no rate of decoding.
    """
    if not all(before.made < after.made for before, after in pairwise(traffic)):
        return False
    pace = prefill_pace(claims)
    if pace is None:
        return bearable(traffic)
    first, last = traffic[0], traffic[-1]
    return (last.prefilled - first.prefilled) / pace <= PREFILL_SHARE * (last.at - first.at)


def bearable(traffic: tuple[Traffic, ...]) -> bool:
    """So few new prompt tokens that they hardly matter, whatever they cost."""
    first, last = traffic[0], traffic[-1]
    return last.prefilled - first.prefilled <= PROMPT_TOKENS * (last.made - first.made)


def prefill_pace(claims: Iterable[Claim]) -> float | None:
    """Prompt tokens a second by the slowest claim of one prompt alone; None where none says."""
    alone = [claim for claim in claims if (claim.concurrency or 1) == 1]
    timed = [(claim.context or 0, prefill_seconds(claim)) for claim in alone]
    return min((tokens / seconds for tokens, seconds in timed if seconds), default=None)


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
