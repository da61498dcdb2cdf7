"""Layers of profiles: a later one wins fact by fact, and every fact keeps its layer and its words."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import AgentError
from agent.profile.document import Profile
from agent.profile.layers import SETS, SHIPPED, SITE, from_sets, layered, validate
from agent.profile.trouble import BadProfile, BadSet

MEMORY = {"value": "200GiB", "from": "config.runtime.notes", "words": "RAM ≥200 GB"}


def both(shipped: dict[str, Any], site: dict[str, Any]) -> Profile:
    return layered([(SHIPPED, validate(shipped, "a")), (SITE, validate(site, "b"))])


def test_a_plain_value_and_one_with_its_source_mean_the_same() -> None:
    plain = validate({"requirements": {"memory_available": "200GiB"}}, "a").requirements.memory_available
    sourced = validate({"requirements": {"memory_available": MEMORY}}, "a").requirements.memory_available
    assert plain is not None
    assert sourced is not None
    assert plain.value == sourced.value == 200 * 2**30


def test_the_origin_of_a_fact_is_its_layer_its_key_and_its_words() -> None:
    fact = layered([(SHIPPED, validate({"requirements": {"memory_available": MEMORY}}, "a"))])
    assert fact.requirements.memory_available is not None
    origin = fact.requirements.memory_available.origin("requirements.memory_available")
    assert origin == "profile requirements.memory_available (recipe config.runtime.notes: RAM ≥200 GB)"


def test_the_site_lowers_one_fact_and_leaves_the_others() -> None:
    merged = both(
        {"requirements": {"memory_available": MEMORY, "driver": "610.57.04"}},
        {"requirements": {"memory_available": "16GiB"}},
    )
    assert merged.requirements.memory_available is not None
    assert merged.requirements.memory_available.value == 16 * 2**30
    assert merged.requirements.memory_available.origin("x") == "site profile x"
    assert merged.requirements.driver is not None
    assert merged.requirements.driver.layer == SHIPPED


def test_a_source_gains_a_commit_and_keeps_what_was_said_of_it() -> None:
    shipped = validate(
        {"image": {"sources": {"plugin": {"git": "https://git.example/p", "from": "credit[2].url"}}}}, "a"
    )
    merged = layered([(SHIPPED, shipped), (SETS, from_sets({"image.sources.plugin.commit": "94c29ba"}))])
    source = merged.image.sources["plugin"]
    assert (source.git, source.path, source.layer) == ("https://git.example/p", "credit[2].url", SHIPPED)
    assert source.commit is not None
    assert (source.commit.value, source.commit.layer) == ("94c29ba", SETS)
    assert source.pinned


def test_a_list_is_replaced_as_a_whole() -> None:
    merged = both({"launch": {"line": [{"argv": ["a"]}, {"argv": ["b"]}]}}, {"launch": {"line": [{"argv": ["c"]}]}})
    assert [words.argv for words in merged.launch.line] == [("c",)]
    assert merged.launch.line[0].layer == SITE


@pytest.mark.parametrize(
    ("sets", "path", "value"),
    [
        ({"port": "18095"}, "port", 18095),
        ({"gpus": "0,1"}, "gpus", ("0", "1")),
        ({"gpus": "[GPU-a, GPU-b]"}, "gpus", ("GPU-a", "GPU-b")),
        ({"requirements.driver": "580.10"}, "requirements.driver", "580.10"),
        ({"requirements.memory_available": "16GiB"}, "requirements.memory_available", 16 * 2**30),
        ({"expendable": "true"}, "expendable", True),
    ],
)
def test_a_set_is_read_as_its_key_wants_it(sets: dict[str, str], path: str, value: object) -> None:
    found: Any = from_sets(sets)
    for name in path.split("."):
        found = getattr(found, name)
    assert found.value == value


@pytest.mark.parametrize("text", ["010", "1e3", "no", "/a: b", "*x", ""])
def test_a_variable_is_taken_letter_by_letter(text: str) -> None:
    assert from_sets({"GRAFT": text}).variables["GRAFT"].value == text
    assert from_sets({"variables.GRAFT": text}).variables["GRAFT"].value == text


def test_windows_are_durations_or_none() -> None:
    watch = from_sets({"watch.stall": "90s", "watch.suspect": "null", "watch.backoff": "[1s, 2s]"}).watch
    assert {key: fact.value for key, fact in watch.items()} == {"stall": 90.0, "suspect": None, "backoff": (1.0, 2.0)}


@pytest.mark.parametrize(
    ("sets", "why"),
    [
        ({"requirements.drver": "1"}, "unknown key 'requirements.drver', did you mean 'driver'?"),
        ({"port": "x"}, "cannot set port=x: port.value should be a valid integer"),
        ({"port": "70000"}, "less than or equal to 65535"),
        ({"port": "1", "port.x": "1"}, "cannot set port.x=1"),
        ({"image.sources.p.commit": "main"}, "cannot set image.sources.p.commit=main"),
        ({"": "1"}, "cannot set =1"),
    ],
)
def test_a_set_that_fits_nowhere_is_a_usage_error(sets: dict[str, str], why: str) -> None:
    with pytest.raises(BadSet) as caught:
        from_sets(sets)
    assert why in caught.value.text
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"requirments": {}}, "unknown key 'requirments', did you mean 'requirements'?"),
        ({"requirements": {"gpu_count": "four"}}, "requirements.gpu_count"),
        ({"requirements": {"driver": 580.10}}, "requirements.driver"),
        (
            {"image": {"steps": [{"copy": {"source": "a", "path": "b", "to": "c"}, "pip": {"source": "a"}}]}},
            "exactly one",
        ),
        ({"image": {"steps": [{}]}}, "exactly one of apply, copy, run, pip, extension, env, files"),
    ],
)
def test_a_profile_that_cannot_be_meant_is_an_error_with_its_key(value: dict[str, Any], why: str) -> None:
    with pytest.raises(BadProfile, match="cannot read the profile a file: ") as caught:
        validate(value, "a file")
    assert why in caught.value.text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(Profile.model_fields)), json_values)
def test_any_value_at_any_key_is_read_or_refused(key: str, value: Any) -> None:
    with suppress(AgentError):
        layered([(SHIPPED, validate({key: value}, "a file"))])


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=20), st.text(max_size=20))
def test_any_set_is_taken_or_refused(key: str, value: str) -> None:
    with suppress(AgentError):
        from_sets({key: value})
