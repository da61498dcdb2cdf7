"""Derive how an engine is watched from what its recipe claims, its launch says and this host measured (pure).

The arithmetic, all of it shown in each window's `how`:
- The prefill time of M tokens, from a prompt of L tokens that took P seconds: P × (M/L)² (attention alone), no more
  than three times the linear P × M/L, since attention is a part of the work only.
- With n tokens a chunk costs a + b·n with a ≥ 0, so the last chunk of a prompt takes at most twice the average one:
  2 × C × P/L. Thirty of those without a step is no prefill any more.
- Where a prefill shows no step, silence says something only beyond three times the longest one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from agent.engines.model import EngineKind, EngineLaunch
from agent.engines.registry import dialect_of
from agent.errors import InvalidInput
from agent.plan.model import Claim
from agent.plan.watch import Span, Watch

PERIOD_S = 10.0
SCRAPE_TIMEOUT_S = 5.0
STALL_FLOOR_S = 180.0
BLIND_MARGIN_S = 60.0
CANARY_LONGEST_S = 300.0
CHUNK_LARGEST = 16384
"""vLLM's own largest default of tokens a step (cards of 160 GB and more): the safe guess where a launch is silent."""
EXTRAPOLATE = 16
"""A measured prompt stands for prompts that are so many times longer, not more."""
SHORTEST = 1024
"""Tokens below which a prefill is mostly overhead."""
AGREE = 0.05
"""Claims of one prompt that differ by less are one measurement, rounded."""

_NOT_SPANS = frozenset({"backoff", "budget"})


@dataclass(frozen=True, slots=True)
class Given:
    """A window that somebody set: its value (seconds; a list for `backoff`, a count for `budget`) and where."""

    value: float | Sequence[float] | None
    origin: str


Override = Given | float | Sequence[float] | None


@dataclass(frozen=True, slots=True)
class Prefill:
    """A prompt of `tokens` took `seconds` cold; `how` says by whose word."""

    tokens: float
    seconds: float
    how: str
    warnings: tuple[str, ...] = ()

    def longest(self, tokens: float) -> float:
        """Seconds of a prompt of so many tokens, at worst."""
        ratio = tokens / self.tokens
        return self.seconds * max(1.0, min(ratio * ratio, 3.0 * ratio))


def derive(
    engine: EngineLaunch | None,
    claims: Sequence[Claim],
    overrides: Mapping[str, Override],
    learned: Mapping[str, float] | None = None,
) -> Watch:
    """The windows of one deployment.

    `overrides` are seconds by window name, set by profile or site (`None`: never; plain numbers or `Given` with its
    origin). `learned` holds what this engine on this host measured: `prefill_s` of `prefill_tokens`, `start_s`. Raises
    InvalidInput for a window that does not exist or cannot be what it was set to.
    """
    known = learned or {}
    given = {key: of(value) for key, value in overrides.items()}
    period = period_of(engine, given)
    prefill = chosen(engine, measured(known), claimed(claims))
    derived = {**stall_windows(engine, prefill), **start_windows(engine, given, known), "period": period}
    watch = replace(
        basics(period.value).with_spans(derived),
        derived=prefill is not None,
        warnings=prefill.warnings if prefill else (no_claim(),),
    )
    return override(watch, {key: value for key, value in given.items() if key != "period"})


def of(value: Override) -> Given:
    return value if isinstance(value, Given) else Given(value, "set")


# ── the prefill that all stall windows rest on ────────────────────────────────────────────────────────────────────


def measured(learned: Mapping[str, float]) -> Prefill | None:
    """The longest cold prefill that was seen here."""
    seconds, tokens = learned.get("prefill_s", 0.0), learned.get("prefill_tokens", 0.0)
    if seconds <= 0 or tokens <= 1:
        return None
    return Prefill(tokens, seconds, f"measured here: {tokens:,.0f} tokens in {seconds:.4g} s")


def chosen(engine: EngineLaunch | None, seen: Prefill | None, stated: Prefill | None) -> Prefill | None:
    """What was measured, where it reaches far enough: short prompts say little of the work of long ones."""
    if seen is None:
        return stated
    longest = max((engine.max_model_len if engine is not None else None) or 0, stated.tokens if stated else 0)
    return seen if seen.tokens * EXTRAPOLATE >= longest and seen.tokens >= SHORTEST else stated


def claimed(claims: Sequence[Claim]) -> Prefill | None:
    """The longest prompt whose prefill is claimed; of claims that contradict each other, the longer time."""
    times = [(claim, seconds) for claim in claims if (seconds := prefill_seconds(claim)) is not None]
    alone = [entry for entry in times if entry[0].concurrency in (None, 1)] or times
    if not alone:
        return None
    tokens = max(claim.context or 0 for claim, _ in alone)
    of_it = [(claim, seconds) for claim, seconds in alone if claim.context == tokens]
    # a time is nearer to what was measured than one worked out from a rounded rate
    said = [entry for entry in of_it if entry[0].metric == "ttft_ms"] or of_it
    claim, seconds = max(said, key=lambda entry: entry[1])
    longest_claim, longest = max(of_it, key=lambda entry: entry[1])
    if longest > seconds * (1 + AGREE):
        warning = (
            f"claims contradict each other for {tokens:,} tokens: {seconds:.4g} s ({claim.origin}) and "
            f"{longest:.4g} s ({longest_claim.origin}); the windows use the longer"
        )
        return Prefill(tokens, longest, words(longest_claim, longest), (warning,))
    return Prefill(tokens, seconds, words(claim, seconds))


def prefill_seconds(claim: Claim) -> float | None:
    """The cold prefill that one claim states, None where it states none. A context of 1 is a filler, 0 is unknown."""
    if claim.context is None or claim.context <= 1 or not math.isfinite(claim.value) or claim.value <= 0:
        return None
    if claim.metric == "ttft_ms":
        return claim.value / 1000.0
    if claim.metric == "prefill_tok_s" and not (claim.aggregate and (claim.concurrency or 1) > 1):
        return claim.context / claim.value
    return None


def words(claim: Claim, seconds: float) -> str:
    """A claim as a window's arithmetic quotes it."""
    stated = f"{claim.value / 1000:.4g} s to the first token"
    if claim.metric != "ttft_ms":
        stated = f"{claim.value:,.4g} tok/s, so {seconds:.4g} s"
    return f"claimed: {claim.context or 0:,} tokens, {stated} ({claim.origin})"


def no_claim() -> str:
    return (
        "no prefill is claimed and none was measured yet: silence alone is reported, nothing is restarted for it "
        "(set watch.stall, or let the agent measure a prefill)"
    )


# ── windows ───────────────────────────────────────────────────────────────────────────────────────────────────────


def stall_windows(engine: EngineLaunch | None, prefill: Prefill | None) -> dict[str, Span]:
    """How long no progress may last, with steps to be seen and without, and what a canary may take."""
    if prefill is None:
        none = Span(None, "not derivable: no prefill is claimed or measured")
        return {
            "stall": none,
            "stall_blind": none,
            "canary_timeout": Span(CANARY_LONGEST_S, f"{CANARY_LONGEST_S:.0f} s: no prefill is claimed or measured"),
        }
    chunk, chunk_how = chunk_of(engine)
    last_chunk = 2 * chunk * prefill.seconds / prefill.tokens
    longest, longest_how = longest_of(engine, prefill)
    return {
        "stall": Span(
            whole(max(STALL_FLOOR_S, 30 * last_chunk)),
            f"max({STALL_FLOOR_S:.0f} s, 30 × the last chunk's time 2 × {chunk:,} × {prefill.seconds:.4g} s / "
            f"{prefill.tokens:,.0f} = {last_chunk:.3g} s); {chunk_how}; {prefill.how}",
        ),
        "stall_blind": Span(
            whole(max(STALL_FLOOR_S, 3 * longest + BLIND_MARGIN_S)),
            f"max({STALL_FLOOR_S:.0f} s, 3 × {longest:.4g} s + {BLIND_MARGIN_S:.0f} s); {longest_how}",
        ),
        "canary_timeout": Span(
            whole(min(CANARY_LONGEST_S, max(1.5 * longest, 30.0))),
            f"min({CANARY_LONGEST_S:.0f} s, 1.5 × {longest:.4g} s, at least 30 s): it may queue behind one prefill",
        ),
    }


def chunk_of(engine: EngineLaunch | None) -> tuple[int, str]:
    """Prefill tokens a step."""
    if engine is not None and engine.chunk_tokens:
        return engine.chunk_tokens, f"the launch's {engine.chunk_tokens:,} tokens a step"
    return CHUNK_LARGEST, f"{CHUNK_LARGEST:,} tokens a step, the largest default, since the launch does not say"


def longest_of(engine: EngineLaunch | None, prefill: Prefill) -> tuple[float, str]:
    """The longest prefill that the launch's context admits."""
    tokens = engine.max_model_len if engine is not None else None
    if tokens is None or tokens <= prefill.tokens:
        return prefill.seconds, prefill.how
    longest = prefill.longest(tokens)
    ratio = tokens / prefill.tokens
    return longest, (
        f"a prompt of the whole context of {tokens:,} tokens: min({prefill.seconds:.4g} s × {ratio:.4g}², 3 × "
        f"{prefill.seconds:.4g} s × {ratio:.4g}) = {longest:.4g} s; {prefill.how}"
    )


def start_windows(
    engine: EngineLaunch | None, given: Mapping[str, Given], learned: Mapping[str, float]
) -> dict[str, Span]:
    """What a start-up may take before it is told, and what the launch itself states."""
    expected = expected_start(given, learned)
    limit = engine.ready_timeout_s if engine is not None else None
    alert = 900.0 if expected.seconds is None else max(2 * expected.seconds, 900.0)
    return {
        "start_expected": expected,
        "start_alert": Span(
            alert, f"max(2 × {expected.seconds:.4g} s, 900 s)" if expected.seconds else "900 s: no start time is stated"
        ),
        "start_limit": Span(limit, "the launch's own limit" if limit else "the launch states no limit"),
    }


def expected_start(given: Mapping[str, Given], learned: Mapping[str, float]) -> Span:
    """Stated by the profile, else the longest start that this host has seen."""
    stated = given.get("start_expected")
    if stated is not None and isinstance(stated.value, int | float):
        return Span(float(stated.value), stated.origin)
    seen = learned.get("start_s", 0.0)
    return Span(seen, "the longest start on this host") if seen > 0 else Span(None, "neither stated nor measured")


def period_of(engine: EngineLaunch | None, given: Mapping[str, Given]) -> Span:
    """Between two samples; never below what changes the engine's behaviour."""
    floor = dialect_of(engine.kind).traits.min_period if engine is not None else 0.0
    stated = given.get("period")
    if stated is None:
        return Span(max(PERIOD_S, floor), f"{PERIOD_S:.0f} s")
    seconds = checked("period", stated)
    if seconds is None or seconds <= 0:
        raise unfit("period", stated, "it must be above zero")
    if seconds < floor:
        kind = engine.kind if engine is not None else EngineKind.OPENAI
        return Span(floor, f"{stated.origin} says {seconds:g} s; {kind} is not scraped faster than every {floor:g} s")
    return Span(seconds, stated.origin)


def basics(period: float) -> Watch:
    """The windows that rest on no recipe, stretched where samples come slowly."""

    def at_least(seconds: float, samples: int, why: str) -> Span:
        stretched = f"; {samples} samples at least" if samples * period > seconds else ""
        return Span(max(seconds, samples * period), why + stretched)

    none = Span(None, "not derived yet")
    return Watch(
        period=none,
        scrape_timeout=Span(min(SCRAPE_TIMEOUT_S, period), f"{SCRAPE_TIMEOUT_S:.0f} s, no longer than the period"),
        suspect=at_least(60.0, 3, "no healthy step takes a minute: a reason to look closer, nothing more"),
        stall=none,
        stall_blind=none,
        zombie=at_least(60.0, 5, "an engine frees the request of a client that left within seconds"),
        canary_idle=at_least(300.0, 3, "an engine that hung while idle is found before its users find it"),
        canary_timeout=none,
        start_expected=none,
        start_alert=none,
        start_silence=at_least(300.0, 3, "no log, disk, processor or GPU memory movement for 5 minutes is no load"),
        start_limit=none,
        refused=at_least(30.0, 3, "a port that was open and refuses is no busy engine"),
        unobservable=at_least(120.0, 12, "twelve scrapes in a row"),
        jit=Span(120.0, "kernels compiled at run time took up to 120 s"),
        drain=Span(0.0, "requests are not waited for unless asked (--drain)"),
        term=Span(20.0, "engines without clients end within seconds of TERM"),
        term_clients=Span(60.0, "with clients attached some engines never end: a minute for their last tokens"),
        kill=Span(30.0, "a process that survives KILL for so long is stuck in the kernel"),
        release=Span(120.0, "drivers give memory back within seconds; shared memory of a killed engine takes longer"),
        healthy=Span(1800.0, "30 minutes of proven readiness"),
    )


# ── overrides ─────────────────────────────────────────────────────────────────────────────────────────────────────


def override(watch: Watch, given: Mapping[str, Given]) -> Watch:
    """`watch` with what somebody set; a stall window so set counts as derived, for it is a person's word."""
    spans = watch.spans()
    for key in given:
        if key not in spans and key not in _NOT_SPANS:
            known = sorted({*spans, *_NOT_SPANS})
            near = next(iter(get_close_matches(key, known, 1)), None)
            why = "no such window" + (f", did you mean {near!r}?" if near else "") + f" ({given[key].origin})"
            raise InvalidInput(what=f"watch.{key}", why=why, advice=f"there are: {', '.join(known)}")
    if "period" in given and not checked("period", given["period"]):
        raise unfit("period", given["period"], "it must be above zero")
    changed: dict[str, Span] = {
        key: Span(checked(key, value), value.origin) for key, value in given.items() if key in spans
    }
    stated = any(changed[key].seconds is not None for key in ("stall", "stall_blind") if key in changed)
    return replace(
        watch.with_spans(changed),
        backoff=backoff_of(given["backoff"]) if "backoff" in given else watch.backoff,
        budget=budget_of(given["budget"]) if "budget" in given else watch.budget,
        derived=watch.derived or stated,
        warnings=watch.warnings if watch.derived or not stated else (),
    )


def checked(key: str, given: Given) -> float | None:
    """Seconds, None for "never"."""
    if given.value is None:
        return None
    if isinstance(given.value, bool) or not isinstance(given.value, int | float):
        raise unfit(key, given, "it must be a number of seconds")
    if not math.isfinite(given.value) or given.value < 0:
        raise unfit(key, given, "it must be a finite number of seconds, zero or more")
    return float(given.value)


def backoff_of(given: Given) -> tuple[float, ...]:
    value = given.value
    if value is None or isinstance(value, int | float | str):
        raise unfit("backoff", given, "it must be a list of seconds")
    waits = [checked("backoff", Given(wait, given.origin)) for wait in value]
    if not waits or None in waits:
        raise unfit("backoff", given, "it must be a list of seconds with one at least")
    return tuple(wait for wait in waits if wait is not None)


def budget_of(given: Given) -> int:
    value = given.value
    whole_number = isinstance(value, int | float) and math.isfinite(value) and value == int(value)
    if isinstance(value, bool) or not whole_number or not isinstance(value, int | float) or value < 0:
        raise unfit("budget", given, "it must be a whole number of restarts, zero or more")
    return int(value)


def unfit(key: str, given: Given, why: str) -> InvalidInput:
    return InvalidInput(what=f"watch.{key}", why=f"{given.value!r} ({given.origin}): {why}")


def whole(seconds: float) -> float:
    """Whole seconds, up: a window is never shorter than its arithmetic."""
    return float(math.ceil(round(seconds, 6)))
