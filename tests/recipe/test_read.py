"""Documents are read whole and tolerantly; what is no recipe is an error that says why."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import AgentError
from agent.recipe.read import read_recipe
from agent.recipe.trouble import BadRecipe
from tests.lab.pace import cost, second
from tests.recipe.documents import document, encode


def read(**changes: Any) -> Any:
    return read_recipe(encode(document(**changes)), "a file")


def test_a_document_is_identified_by_its_hash_and_pinned_by_its_bytes() -> None:
    data = encode(document())
    recipe = read_recipe(data, "a file")
    assert recipe.slug == "small-model-on-2x-card"
    assert recipe.sha256 == hashlib.sha256(data).hexdigest()
    assert (recipe.revision.number, recipe.revision.content_hash) == (3, "a" * 40)
    assert recipe.document == document()


def test_escapes_of_a_title_are_shown_as_what_was_meant() -> None:
    assert read().title == "Small model on 2x card — TP2"


def test_timestamps_stay_text_that_python_can_parse() -> None:
    stamp = read().revision.created_at
    assert stamp == "2026-10-20 15:34:08.130558-06"
    assert datetime.fromisoformat(stamp).utcoffset() is not None


def test_numbers_may_be_text_and_carry_noise() -> None:
    recipe = read()
    assert recipe.max_context == 32768
    assert 54.7 in [point.decode_tok_s for point in recipe.points]


def test_points_are_the_union_and_zero_is_unknown() -> None:
    points = read().points
    assert [point.origin for point in points] == [
        "perf_points[0]",
        "perf_points[1]",
        "performance[0].metrics.points[1]",
    ]
    assert points[1].prefill_tok_s is None
    assert (points[2].prefill_tok_s, points[2].ttft_ms, points[2].claimed_by) == (4061, 9000, "submitter")


def test_every_text_has_its_place_also_within_json_in_a_text() -> None:
    leaves = {leaf.path: leaf.text for leaf in read().leaves}
    assert leaves["config.runtime.notes"] == "Restart after a hang. Keep it cool."
    assert leaves["performance[0].metrics.notes"] == "Measured twice. Warm."
    assert leaves["config.launch[7]"] == "engine:v1"
    assert "performance[0].metrics" not in leaves


def test_a_word_of_a_launch_that_is_json_stays_one_word() -> None:
    launch = ["vllm", "serve", "m", "--speculative-config", '{"method":"x"}']
    leaves = {leaf.path: leaf.text for leaf in read(config={"launch": launch}).leaves}
    assert leaves["config.launch[4]"] == '{"method":"x"}'


@pytest.mark.parametrize(
    ("changes", "attribute", "value"),
    [
        ({"config": None}, "launch", ()),
        ({"config": {"launch": None}}, "launch", ()),
        ({"config": {"launch": "vllm serve m"}}, "launch", ("vllm serve m",)),
        (
            {"config": {"launch": ["vllm", "serve", "m", "--port", 8000]}},
            "launch",
            ("vllm", "serve", "m", "--port", "8000"),
        ),
        ({"hardware": {"card": "x", "vram_gb": "64"}}, "hardware[0].vram_gb", 64.0),
        ({"hardware": [None, {"device_count": "2"}]}, "hardware[0].count", 2),
        ({"models": None}, "models", ()),
        ({"revision": {"no": "4"}}, "revision.number", 4),
        ({"performance": None, "perf_points": None}, "points", ()),
        ({"engine_source": "vllm"}, "engine", None),
        ({"hardware": [{"vram_gb": float("nan")}]}, "hardware[0].vram_gb", None),
    ],
)
def test_an_odd_part_costs_only_itself(changes: dict[str, Any], attribute: str, value: object) -> None:
    recipe = read(**changes)
    found: Any = recipe
    for name in attribute.split("."):
        found = getattr(found, name.removesuffix("[0]"))
        found = found[0] if name.endswith("[0]") else found
    assert found == value


def test_what_was_left_out_is_said() -> None:
    assert any("engine_source is not what it should be" in note for note in read(engine_source="vllm").notes)
    assert any("is a text that is no JSON" in note for note in read(performance=[{"metrics": "fast"}]).notes)
    data = b'{"slug": "a", "tier": "x", "tier": "y"}'
    assert read_recipe(data, "a file").notes == ("the key 'tier' stands twice in one object; the last one counts",)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b"<html>", "starts no engine and is in no known format"),
        (b"{", "line 1, column 2"),
        (b"[]", "it is no JSON object"),
        (b'{"title": "x"}', "it has no slug"),
        (b'{"slug": "../../etc/passwd"}', "'../../etc/passwd' is no slug"),
        (b'{"slug": "a", "title": "\\ud800"}', "half a surrogate pair"),
        (b'{"slug": "a", "x": ' + b"9" * 6000 + b"}", "too many digits"),
        (b'{"slug": "a", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"slug": "a", "x": ' + b"9" * 5000 + b"}", "a file"),
        (b"\xff\xfe", "no UTF-8"),
        (b" " * 5_000_001, "larger than 5 MB"),
        (b'{"meta": {}, "recipes": []}', "listing of several recipes"),
    ],
)
def test_what_is_no_recipe_is_an_error_that_says_why(data: bytes, why: str) -> None:
    with pytest.raises(BadRecipe, match="cannot read the recipe a file: ") as caught:
        read_recipe(data, "a file")
    assert why in caught.value.text


def test_the_name_of_a_file_stands_for_a_slug_that_is_missing() -> None:
    recipe = read_recipe(b'{"config": {"launch": "vllm serve m"}}', "/r/mine.json", "mine")
    assert recipe.slug == "mine"
    assert recipe.notes


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(document())), json_values)
def test_any_value_at_any_key_is_read_or_refused(key: str, value: Any) -> None:
    with suppress(AgentError):
        read_recipe(json.dumps(document(**{key: value})).encode(), "a file", "fallback")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(AgentError):
        read_recipe(data, "a file", "fallback")


@pytest.mark.parametrize("number", [1e300, -5, -0.5, "9" * 400, 10**400, -(10**400), [1], {"a": 1}, "many", True])
def test_a_figure_that_counts_nothing_is_no_figure(number: Any) -> None:
    """Bytes, cards and windows are computed from these."""
    hardware = [{"card": "c", "vram_gb": number, "device_count": number}]
    points = [{"decode_tok_s": number, "concurrency": number, "context_len": number}]
    recipe = read(hardware=hardware, perf_points=points, performance=[])
    assert (recipe.hardware[0].vram_gb, recipe.hardware[0].count) == (None, None)
    assert [(point.decode_tok_s, point.concurrency, point.context) for point in recipe.points] in ([], [(None,) * 3])


def test_a_megabyte_takes_less_than_a_second() -> None:
    big = document(notes=[f"sentence {n}. Another one." for n in range(30_000)])
    data = encode(big)
    assert len(data) > 1_000_000
    assert cost(lambda: read_recipe(data, "a file")) < 1.0 * second()


def test_the_published_documents_are_read_whole(shared: Path) -> None:
    files = sorted((shared / "recipes").glob("deepseek*.json"))
    recipes = [read_recipe(file.read_bytes(), str(file)) for file in files]
    assert [(recipe.revision.number, recipe.hardware[0].count, recipe.max_context) for recipe in recipes] == [
        (2, 4, 524288),
        (3, 6, 1048576),
    ]
    assert [len(recipe.points) for recipe in recipes] == [8, 4]
    assert all(recipe.notes == () for recipe in recipes)
    longest = max(recipes[0].points, key=lambda point: point.ttft_ms or 0)
    assert (longest.ttft_ms, longest.context, longest.origin) == (129000, 524288, "performance[0].metrics.points[4]")
