"""Numbers for the export, from the window alone; what is not known is not there."""

from __future__ import annotations

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
        "decode_tokens_per_second": rate(case, "generation_tokens"),
        "spec_decode_acceptance_ratio": acceptance(case),
        "seconds_since_progress": silences(case, ranks) or None,
    }
    return {name: value for name, value in values.items() if value is not None}


def connections(case: Case) -> int | None:
    return case.last.connections.established if isinstance(case.last.connections, Connections) else None


def total(readings: list[RankReading], name: str) -> float | None:
    """A sum over ranks, for showing only."""
    known = [value for reading in readings if (value := getattr(reading, name)) is not None]
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
    return total(list(sample.scrape.ranks), name) if isinstance(sample.scrape, EngineReading) else None


def rate(case: Case, name: str) -> float | None:
    """Growth a second of a counter over the last minute, never below zero."""
    span = scrapes(case)
    if len(span) < 2 or case.blind:
        return None
    first, last = reading_total(span[0], name), reading_total(span[-1], name)
    seconds = span[-1].at - span[0].at
    if first is None or last is None or seconds <= 0:
        return None
    return max(0.0, (last - first) / seconds)


def acceptance(case: Case) -> float | None:
    """Accepted of drafted tokens in the last minute; None where nothing was drafted."""
    span = scrapes(case)
    if len(span) < 2:
        return None
    grown = [
        (reading_total(span[-1], name) or 0.0) - (reading_total(span[0], name) or 0.0)
        for name in ("drafted", "accepted")
    ]
    return min(1.0, grown[1] / grown[0]) if grown[0] > 0 and grown[1] >= 0 else None
