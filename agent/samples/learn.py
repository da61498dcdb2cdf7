"""What a window teaches about this engine on this host, for later windows (pure)."""

from __future__ import annotations

from agent.clock import Instant
from agent.engines.model import EngineReading, Phase
from agent.samples.model import Sample, Window
from agent.samples.window import IDLE_POWER

CLEAR = 1.05
"""A longer prompt is worth learning when it is longer by so much; else the record would be written all the time."""


def learned(window: Window) -> dict[str, float]:
    """Figures that are new or better than `window.learned`.

    `start_s` with its steps (`phase_s.<phase>`), `prefill_s` of `prefill_tokens`, `idle_power_w.<card>`.
    """
    return {**start(window), **prefill(window), **power(window)}


def start(window: Window) -> dict[str, float]:
    """Seconds of the longest start that ended in ready, and of its steps, where the whole of it was seen."""
    since = window.marks.since
    if window.ready is None or since is None or since.mono > window.ready.mono:
        return {}
    seconds = window.ready - window.started
    longer = seconds > window.learned.get("start_s", 0.0) * CLEAR
    return {"start_s": seconds, **steps(window, window.ready)} if longer else {}


def steps(window: Window, ready: Instant) -> dict[str, float]:
    """Seconds of each step; what came before the first line is the boot's. One that is gone through twice counts all.

    All steps are named, those that did not occur with 0, so that none of an older start is left among them.
    """
    found = {f"phase_s.{phase}": 0.0 for phase in Phase}
    times = [window.started, *window.phased, ready]
    names = [Phase.BOOT, *(event.phase or Phase.BOOT for event in window.phases)]
    for name, begin, end in zip(names, times, times[1:], strict=False):
        found[f"phase_s.{name}"] += max(0.0, min(ready.mono, end.mono) - begin.mono)
    return found


def prefill(window: Window) -> dict[str, float]:
    """The longest cold prefill of a request that had the engine to itself: between two idle looks exactly one ended."""
    last = figures(window.last)
    if last is None:
        return {}
    for sample in reversed(window.samples[:-1]):
        first = figures(sample)
        if first is not None:
            count, seconds, tokens, cached = (now - before for now, before in zip(last, first, strict=True))
            longer = tokens > window.learned.get("prefill_tokens", 0.0) * CLEAR
            fits = count == 1 and cached == 0 and seconds > 0 and tokens > 0
            return {"prefill_s": seconds, "prefill_tokens": tokens} if fits and longer else {}
    return {}


def figures(sample: Sample) -> tuple[float, float, float, float] | None:
    """Prefills ended, their seconds, prompt tokens and cached tokens of a look at an idle engine; else None."""
    scrape = sample.scrape
    if not isinstance(scrape, EngineReading) or any(rank.work != 0 for rank in scrape.ranks) or not scrape.ranks:
        return None
    prompts = [rank.prompt_tokens for rank in scrape.ranks]
    known = (scrape.prefill_seconds_count, scrape.prefill_seconds_sum, scrape.cached_tokens)
    if any(value is None for value in (*prompts, *known)):
        return None
    count, seconds, cached = (value or 0.0 for value in known)
    return count, seconds, sum(value or 0.0 for value in prompts), cached


def power(window: Window) -> dict[str, float]:
    """The least power of each card while nothing ran, where it is lower than what was known."""
    return {
        key: watts
        for uuid, watts in window.marks.effort.idle_power.items()
        if watts < window.learned.get(key := f"{IDLE_POWER}{uuid}", float("inf"))
    }
