"""The text format, held against the parser of prometheus_client."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from agent.metrics.names import Family
from agent.metrics.text import exposition

FAMILY = Family("thing", "gauge", 'help with \\ and "quotes"\nover lines', ("recipe", "kind"))
LABELS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.tuples(LABELS, LABELS), st.floats(allow_nan=False), max_size=8))
def test_any_labels_and_values_are_read_back_as_they_were(rows: dict[tuple[str, str], float]) -> None:
    (family,) = text_string_to_metric_families(exposition([(FAMILY, rows.items())]).decode())
    assert (family.name, family.type, family.documentation) == ("recipe_agent_thing", "gauge", FAMILY.help)
    assert {(s.labels["recipe"], s.labels["kind"]): s.value for s in family.samples} == rows


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-9, 2.0**53, 1e300, math.inf, -math.inf])
def test_a_number_stays_exact(value: float) -> None:
    (family,) = text_string_to_metric_families(exposition([(FAMILY, [(("a", "b"), value)])]).decode())
    assert family.samples[0].value == value


def test_a_counter_has_its_ending_once() -> None:
    counted = Family("stalls", "counter", "Times.", ("recipe",))
    text = exposition([(counted, [(("a",), 2.0)])]).decode()
    assert text == (
        "# HELP recipe_agent_stalls_total Times.\n"
        "# TYPE recipe_agent_stalls_total counter\n"
        'recipe_agent_stalls_total{recipe="a"} 2.0\n'
    )


def test_half_a_character_costs_itself_alone() -> None:
    assert b'recipe="?"' in exposition([(FAMILY, [(("\ud800", "b"), 1.0)])])
