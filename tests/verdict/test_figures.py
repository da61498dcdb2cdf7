"""Rates of the export: what all ranks made in the last minute, and nothing that they made before."""

from __future__ import annotations

from typing import Any

import pytest

from agent.clock import Instant
from agent.engines.model import EngineReading, RankReading
from agent.samples.model import Miss, Missed, Sample
from agent.samples.window import WindowBuilder
from agent.verdict.case import Case
from agent.verdict.figures import figures
from tests.verdict.series import PP4, pp4_watch

WATCH = pp4_watch()
Ranks = dict[str, dict[str, float]]


def figures_of(*scrapes: Ranks | None) -> dict[str, Any]:
    """After one scrape every ten seconds; None failed."""
    window = WindowBuilder(Instant(0.0, 0.0), WATCH, ready=Instant(0.0, 0.0))
    for number, ranks in enumerate(scrapes):
        at = Instant(10.0 * (number + 1), 10.0 * (number + 1))
        scrape = Missed(Miss.TIMEOUT, "no answer") if ranks is None else reading(ranks)
        found = window.add(Sample(at, Missed(Miss.GONE, "not asked"), scrape))
    return figures(Case(found, WATCH, PP4))


def reading(ranks: Ranks) -> EngineReading:
    return EngineReading(
        tuple(
            RankReading(name, running=1.0, progress={k: v for k, v in values.items() if k != "echo"}, **values)
            for name, values in ranks.items()
        )
    )


def made(*tokens: float | None) -> Ranks:
    return {str(rank): {"generation_tokens": value} for rank, value in enumerate(tokens) if value is not None}


@pytest.mark.parametrize(
    ("scrapes", "expect"),
    [
        ([made(0.0, 0.0), made(100.0, 50.0), made(200.0, 100.0)], 15.0),
        ([made(0.0, 9e6), made(100.0), made(200.0, 9e6 + 100)], None),
        ([made(0.0), made(100.0), made(200.0, 9e6), made(300.0, 9e6 + 100)], 20.0),
        ([made(0.0, 9e6), made(100.0, 9e6 + 50), made(200.0), made(300.0)], 10.0),
        ([made(0.0), None, made(200.0)], 10.0),
        ([made(500.0), made(600.0), made(50.0), made(150.0)], 10.0),
        ([made(500.0)], None),
        ([{"0": {}}, {"0": {}}], None),
    ],
    ids=["two ranks", "one is missing for a look", "one comes", "one goes", "a look that failed", "began anew",
         "one look", "nothing is counted"],
)  # fmt: skip
def test_a_rate_is_what_the_same_ranks_made(scrapes: list[Ranks | None], expect: float | None) -> None:
    """Nine million tokens of a rank's life are no tokens of this minute."""
    assert figures_of(*scrapes).get("decode_tokens_per_second") == expect


def test_tokens_are_counted_as_they_are_made_where_the_engine_does() -> None:
    """SGLang counts those of an answer when it ends: a minute without an end is none without tokens."""
    looks = [{"0": {"generation_tokens": 700.0, "decoded": 400.0 * number}} for number in range(5)]
    found = figures_of(*looks)
    assert (found["decode_tokens_per_second"], found["generation_tokens"]) == (40.0, 700.0)


def test_schedulers_that_count_the_same_are_not_added_up() -> None:
    """Of four of a tensor-parallel group, one is the rank."""
    looks = [
        {name: {"generation_tokens": 100.0 * at, "echo": name != "0"} for name in ("0", "0/tp1", "0/tp2", "0/tp3")}
        for at in range(3)
    ]
    found = figures_of(*looks)
    assert (found["requests_running"], found["decode_tokens_per_second"]) == (1.0, 10.0)


@pytest.mark.parametrize(
    ("first", "last", "expect"),
    [
        ({"drafted": 100.0, "accepted": 50.0}, {"drafted": 200.0, "accepted": 130.0}, 0.8),
        ({}, {"drafted": 1e6, "accepted": 7e5}, None),
        ({"drafted": 100.0, "accepted": 50.0}, {"drafted": 100.0, "accepted": 50.0}, None),
        ({"drafted": 100.0}, {"drafted": 200.0}, None),
    ],
    ids=["a minute's", "counters that were just found", "no drafts", "half of it"],
)
def test_acceptance_is_of_the_last_minute(
    first: dict[str, float], last: dict[str, float], expect: float | None
) -> None:
    found = figures_of({"0": first}, {"0": last})
    assert found.get("spec_decode_acceptance_ratio") == expect
