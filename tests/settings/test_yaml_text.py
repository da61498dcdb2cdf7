"""YAML is read as people mean it, and every text ends in plain data or in an error of the family."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import AgentError
from agent.settings.yaml_text import BadYaml, read_mapping, read_yaml
from tests.lab.pace import cost, second


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("1:30", "1:30"),
        ("2026-10-20", "2026-10-20"),
        ("010", "010"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-3", -3),
        ("0x1f", 31),
        ("", None),
        ("~", None),
        ("5640e12ab", "5640e12ab"),
    ],
)
def test_a_plain_value_means_what_it_looks_like(text: str, value: object) -> None:
    assert read_yaml(f"key: {text}", "a file")["key"] == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\na: 2", "line 2, column 1: the key 'a' stands twice"),
        ("a: [1", "line 2, column 1: did not find expected"),
        ("!!python/object:os.system x", "could not determine a constructor"),
        ("- 1\n- 2", "a mapping of keys is expected, this is a list"),
        ("1: 2", "the key 1 is no text"),
        ("a: \x00", "control characters"),
    ],
)
def test_what_nobody_can_have_meant_is_an_error_that_says_where(text: str, why: str) -> None:
    with pytest.raises(BadYaml, match="cannot read a file: ") as caught:
        read_mapping(text, "a file")
    assert why in caught.value.text


def test_deep_nesting_is_an_error() -> None:
    with pytest.raises(BadYaml):
        read_yaml("[" * 100_000, "a file")


def test_a_small_text_cannot_stand_for_a_huge_value() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 9)]
    with pytest.raises(BadYaml, match="more than 20,000 values"):
        read_yaml("\n".join(rows), "a file")


def test_a_megabyte_is_read_or_refused_within_a_second() -> None:
    for text in ("- a: 1\n" * 150_000, "[" + "a," * 500_000 + "]", "key: " + "word " * 200_000, "a" * 1_000_000):
        assert cost(partial(read_or_refuse, text)) < 1.0 * second()


def read_or_refuse(text: str) -> None:
    with suppress(AgentError):
        read_yaml(text, "a file")


def test_merge_keys_work() -> None:
    assert read_yaml("base: &b {x: 1}\nuse: {<<: *b, y: 2}", "a file")["use"] == {"x": 1, "y": 2}


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from(list("ab:-[]{}#&*!|>'\"%@` \n\t0.,?~")), max_size=60))
def test_any_text_is_data_or_an_error_of_the_family(text: str) -> None:
    with suppress(AgentError):
        read_yaml(text, "a file")
