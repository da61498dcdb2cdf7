"""Every text of a document is acted on or listed, and of a text in part acted on its other sentences."""

from __future__ import annotations

import pytest

from agent.plan.sentences import sentences, untouched
from tests.lab.pace import cost, second
from tests.plan.build import plan, recipe

PROFILE = {
    "requirements": {
        "memory_available": {"value": "20GiB", "from": "config.runtime.notes", "words": "Free RAM must be ≥20 GB"}
    }
}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two.", ["One.", "Two."]),
        ("v1.5.0 is out; take it.", ["v1.5.0 is out;", "take it."]),
        ("A=1 | B=2", ["A=1", "B=2"]),
        ("line\n\nline", ["line", "line"]),
        ("", []),
    ],
)
def test_texts_are_parted_into_sentences(text: str, parts: list[str]) -> None:
    assert [text[start:end] for start, end in sentences(text)] == parts


def test_a_quote_over_several_sentences_takes_them_all() -> None:
    assert list(untouched("One. Two. Three.", ["ne. Tw"])) == ["Three."]


@pytest.mark.parametrize(
    ("text", "quotes"),
    [("a. " * 300_000, ["a."]), (" " * 1_000_000, ["x"]), ("a | " * 250_000, ["a"]), ("a" * 1_000_000, ["aa"])],
    ids=["quotes", "spaces", "bars", "one word"],
)
def test_a_megabyte_is_parted_within_a_second(text: str, quotes: list[str]) -> None:
    assert cost(lambda: list(untouched(text, quotes))) < 1.0 * second()
    assert len(list(untouched(text, quotes))) <= 1


def test_of_a_text_with_a_fact_the_other_sentences_are_left() -> None:
    left = [entry.text for entry in plan(shipped=PROFILE).unapplied if entry.where == "config.runtime.notes"]
    assert left == ["Restart it after a hang;", "it heals.", "Keep the room cool."]


def test_a_text_without_a_fact_is_left_whole() -> None:
    left = {entry.where: entry.text for entry in plan().unapplied}
    assert left["engine_source.install_note"].startswith("Takes an official image.")
    assert left["performance[0].metrics.notes"] == "Measured warm."
    assert left["models[0].hf_repo"] == "org/small"


def test_what_the_plan_acts_on_is_not_listed() -> None:
    places = {entry.where for entry in plan().unapplied}
    assert not places & {"slug", "title", "hardware[0].card", "perf_points[0].notes", "config.runtime.env"}
    assert not any(place.startswith("config.launch") for place in places)


def test_a_launch_that_is_not_used_is_listed() -> None:
    line = {"launch": {"line": [{"argv": ["vllm", "serve", "m"]}]}}
    assert any(entry.where == "config.launch[0]" for entry in plan(shipped=line).unapplied)


def test_every_text_is_in_the_plan_one_way_or_the_other() -> None:
    of = recipe()
    made = plan(of, shipped=PROFILE)
    listed = {entry.where for entry in made.unapplied}
    acted = {leaf.path for leaf in of.leaves} - listed
    assert acted == {
        "slug",
        "title",
        "revision.content_hash",
        "engine_source.base_engine",
        "hardware[0].card",
        "perf_points[0].notes",
        "perf_points[1].notes",
        "config.runtime.env",
    } | {leaf.path for leaf in of.leaves if leaf.path.startswith("config.launch")}
