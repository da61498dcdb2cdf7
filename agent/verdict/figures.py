"""Numbers for the export, from the window alone; what is not known is not there."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from agent.engines.model import EngineReading, RankReading
from agent.samples.marks import RankMark
from agent.samples.model import Connections, Sample
from agent.verdict.case import Case

RATE_S = 60.0
"""Rates are taken over the last minute: one period alone jumps with every finished batch."""


def figures(case: Case) -> dict[str, Any]:
    """The last good scrape's numbers, and rates over the last minute."""
    ranks = [] if case.blind else list(case.marks.ranks.values())
    readings = [mark.last for mark in ranks]
    values: dict[str, Any] = {
        "requests_running": total(readings, "running"),
        "requests_waiting": total(readings, "waiting"),
        "client_connections": connections(case),
        "zombie_requests": 0.0 if readings else None,
        "zombie_kv_tokens": 0.0 if readings else None,
        "prompt_tokens": total(readings, "prompt_tokens"),
        "generation_tokens": total(readings, "generation_tokens"),
        "kv_cache_usage_ratio": usage(readings),
        "decode_tokens_per_second": rate(case, "made"),
        "spec_decode_acceptance_ratio": acceptance(case),
        "seconds_since_progress": silences(case, ranks) or None,
    }
    return {name: value for name, value in values.items() if value is not None}


def connections(case: Case) -> int | None:
    return case.last.connections.established if isinstance(case.last.connections, Connections) else None


def total(readings: list[RankReading], name: str) -> float | None:
    """A sum over ranks, for showing only."""
    known = [value for one in readings if not one.echo and (value := getattr(one, name)) is not None]
    return sum(known) if known else None


def usage(readings: list[RankReading]) -> float | None:
    """The fullest rank's KV cache."""
    known = [reading.kv_usage for reading in readings if reading.kv_usage is not None]
    return max(known) if known else None


def silences(case: Case, ranks: list[RankMark]) -> dict[str, float]:
    """Seconds without progress of each rank that has work; 0 for one that has none."""
    return {mark.last.rank: round(case.silence(mark), 3) if mark.last.work else 0.0 for mark in ranks}


def scrapes(case: Case) -> list[Sample]:
    """The samples of the last minute whose metrics were read, in one run of the engine."""
    tail = case.window.tail(RATE_S)
    since = max((mark.since.mono for mark in case.marks.ranks.values()), default=0.0)
    return [sample for sample in tail if isinstance(sample.scrape, EngineReading) and sample.at.mono >= since]


def reading_total(sample: Sample, name: str) -> float | None:
    return total(list(sample.scrape.apart), name) if isinstance(sample.scrape, EngineReading) else None


def rate(case: Case, name: str) -> float | None:
    """Growth a second of a counter over the last minute, never below zero."""
    found = grown(case, name)
    return None if found is None else max(0.0, found[0][0] / found[1])


def acceptance(case: Case) -> float | None:
    """Accepted of drafted tokens in the last minute; None where nothing was drafted."""
    found = grown(case, "drafted", "accepted")
    if found is None:
        return None
    drafted, accepted = found[0]
    return min(1.0, accepted / drafted) if drafted > 0 and accepted >= 0 else None


def grown(case: Case, *names: str) -> tuple[tuple[float, ...], float] | None:
    """What counters grew by over the last minute, all ranks together, and over how many seconds that was seen.

    Only over scrapes that name the same ranks: what one that comes and goes has counted in its life is no growth.
    """
    span = [] if case.blind else scrapes(case)
    counted = [counts(sample, names) for sample in span]
    same = list(takewhile(lambda one: one.keys() == counted[-1].keys(), reversed(counted)))
    if len(same) < 2 or not same[0]:
        return None
    last, first = same[0], same[-1]
    seconds = span[-1].at - span[-len(same)].at
    if seconds <= 0 or any(name not in {key[1] for key in last} for name in names):
        return None
    return tuple(sum(last[key] - first[key] for key in last if key[1] == name) for name in names), seconds


def counts(sample: Sample, names: tuple[str, ...]) -> dict[tuple[str, str], float]:
    """(rank, counter) → its count, of those that this scrape names."""
    ranks = sample.scrape.apart if isinstance(sample.scrape, EngineReading) else ()
    found = {(rank.rank, name): getattr(rank, name) for rank in ranks for name in names}
    return {key: value for key, value in found.items() if value is not None}
