"""The dashboard, held against the metrics that exist and against a real Prometheus over a live agent."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.config.conftest import Watched
from tests.config.test_prometheus import labels_of, metrics_of
from tests.e2e import traffic
from tests.lab.place import REPOSITORY

BOARD = json.loads((REPOSITORY / "config" / "grafana" / "recipe-agent.json").read_text())
VALUES = {"$recipe": ".*", "$instance": ".*", "$__rate_interval": "1m", "$__range": "5m"}
NEEDS_MORE = {
    "recipe_agent_claim_ratio": "a verification",
    "recipe_agent_gpu_xid_total": "an Xid",
    "recipe_agent_spec_decode_acceptance_ratio": "speculative decoding",
}
"""What a healthy engine on a healthy card does not show."""
PATIENCE_S = 60.0


def panels() -> list[dict[str, Any]]:
    return [one for one in BOARD["panels"] if one["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Every query with the panel that it is on, as it stands in the file."""
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for note in BOARD["annotations"]["list"]:
        yield note["name"], note["expr"]
    for one in BOARD["templating"]["list"]:
        if one["type"] == "query":
            [selector] = re.findall(r"label_values\((.+), \w+\)", one["query"]["query"])
            yield one["name"], selector


def filled(expression: str) -> str:
    """With its variables as they are when everything is chosen."""
    for name, value in VALUES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, "a variable that the dashboard does not have"
    return expression


ALL = sorted(set(expressions()))


@pytest.mark.parametrize(("panel", "expression"), ALL, ids=[f"{name}: {text[:40]}" for name, text in ALL])
def test_queries_name_metrics_and_labels_that_exist(panel: str, expression: str) -> None:
    """A misspelt one is an empty panel that looks like a quiet host."""
    assert metrics_of(expression) or "up{" in expression, panel
    used = set(re.findall(r"(\w+)=~?\"", expression)) | set(re.findall(r"by \(([\w, ]+)\)", expression))
    for label in {word.strip() for words in used for word in words.split(",")}:
        assert label in labels_of(expression), (panel, label)


def test_legends_name_labels_that_their_query_has() -> None:
    """`{{recipe}}` of a query without it is an empty name."""
    for panel in panels():
        for target in panel["targets"]:
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels_of(target["expr"]), panel["title"]


def test_the_layout_has_no_overlap_and_no_twin() -> None:
    """Every panel has its own place, number and name."""
    taken = [
        (x, y)
        for one in BOARD["panels"]
        for x in range(one["gridPos"]["x"], one["gridPos"]["x"] + one["gridPos"]["w"])
        for y in range(one["gridPos"]["y"], one["gridPos"]["y"] + one["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
    for key in ("id", "title"):
        names = [one[key] for one in BOARD["panels"]]
        assert len(names) == len(set(names))


@pytest.mark.prometheus
@pytest.mark.slow
def test_every_query_has_data(watched: Watched) -> None:
    """On an engine that works for a client, on a card, scraped for a while."""
    wanted = {text for _, text in ALL if not metrics_of(text) & NEEDS_MORE.keys()}
    with traffic.client(watched.engine):
        end, empty = time.monotonic() + PATIENCE_S, wanted
        while empty and time.monotonic() < end:
            empty = {text for text in empty if not watched.query(filled(text).removesuffix(" > 0"))}
            time.sleep(0.5)
    assert empty == set()


@pytest.mark.prometheus
@pytest.mark.slow
def test_every_other_query_is_understood(watched: Watched) -> None:
    """Prometheus takes it, and the metric is one that the agent shows."""
    text = watched.rig.metrics()
    for _, expression in ALL:
        watched.query(filled(expression))
        for name in metrics_of(expression) & NEEDS_MORE.keys():
            assert f"# TYPE {name} " in text
