"""What a scrape shows: every name of the contract, nothing of what is gone, and never more than is bounded."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.metrics.bounds import LONGEST, MOST
from agent.metrics.names import FAMILIES, PREFIX
from agent.metrics.render import Exposition
from agent.metrics.snapshot import CardFigures, Snapshot
from tests.metrics.boards import board, snapshot


def series(of: Snapshot) -> list[tuple[str, dict[str, str], float]]:
    text = Exposition(lambda: of).text().decode()
    return [(s.name, s.labels, s.value) for family in text_string_to_metric_families(text) for s in family.samples]


def values(of: Snapshot, name: str, label: str) -> dict[str, float]:
    return {labels[label]: value for found, labels, value in series(of) if found == PREFIX + name}


@pytest.mark.shared
def test_every_name_of_the_contract_is_a_family_with_its_labels(shared: Path) -> None:
    section = (shared / "contract.md").read_text().split("## Metrics")[1]
    wanted = {name: labels for name, labels in re.findall(r"`([a-z_]+)(?:\{([^}]*)\})?`", section) if name != PREFIX}
    known = {family.full.removeprefix(PREFIX): family.labels for family in FAMILIES}
    assert not wanted.keys() - known.keys()
    assert {name: labels for name, labels in wanted.items() if labels and labels != ",".join(known[name])} == {}


def test_a_family_without_samples_still_says_what_it_is() -> None:
    text = Exposition(lambda: Snapshot(version="1")).text().decode()
    for family in FAMILIES:
        assert f"# TYPE {family.full} " in text, family.full
        assert f"# HELP {family.full} " in text, family.full


def test_a_deployment_that_is_gone_leaves_nothing() -> None:
    """Whatever else still remembers it."""
    left = snapshot(2)
    gone, stays = (one.record.slug for one in left.boards)
    after = snapshot(2, boards=left.boards[1:])
    assert gone not in str(series(after))
    assert stays in str(series(after))


def test_what_a_hostile_engine_or_recipe_names_is_bounded() -> None:
    ranks = {str(number): 1.0 for number in range(10_000)}
    slug = "a"
    points = {(slug, f"point {number}"): 1.0 for number in range(10_000)}
    of = snapshot(1, boards=(board(slug, seconds_since_progress=ranks),), ratios=points)
    assert len(values(of, "seconds_since_progress", "rank")) == MOST
    assert len(values(of, "claim_ratio", "point")) == MOST
    left_out = values(of, "series_left_out", "family")
    assert left_out == {PREFIX + name: 10_000 - MOST for name in ("seconds_since_progress", "claim_ratio")}


def test_thousands_of_xids_stay_a_true_sum() -> None:
    card = CardFigures("0", "GPU-0", xids=dict.fromkeys(range(5000), 2))
    found = values(replace(snapshot(), cards=(card,)), "gpu_xid_total", "xid")
    assert len(found) == MOST + 1
    assert sum(found.values()) == 10_000
    assert found["other"] == 2 * (5000 - MOST)


@pytest.mark.parametrize("slug", ['"}\n\\', "x" * 5000, "模型/レシピ", "half \ud800", "{recipe}", "# HELP x\n"])
def test_a_slug_of_any_text_leaves_the_exposition_whole(slug: str) -> None:
    """One label that cannot be written would cost every other series."""
    of = snapshot(boards=(board(slug), board("good")))
    shown = values(of, "engine_ready", "recipe")
    assert len(shown) == 2
    assert shown["good"] == 1.0
    assert all(len(name) <= LONGEST for name in shown)


def test_rows_that_say_the_same_twice_are_one_series() -> None:
    """Prometheus refuses a scrape in which a series stands twice."""
    of = snapshot(boards=(board("y" * 400 + "1"), board("y" * 400 + "2")))
    found = [(name, tuple(sorted(labels.items()))) for name, labels, _ in series(of)]
    assert len(found) == len(set(found))
