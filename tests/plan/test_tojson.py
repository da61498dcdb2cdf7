"""A plan is stored and read back whole, and has every key of the contract."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import AgentError
from agent.plan.diff import diff
from agent.plan.show import printable, show
from agent.plan.tojson import BadPlan, plan_from_json, to_json
from tests.plan.build import bare, cards, plan, recipe

CONTRACT = {
    "plan_id": (),
    "recipe": ("slug", "revision", "content_hash", "sha256", "source"),
    "runtime": (),
    "engine": ("kind", "port", "health", "metrics", "served_model"),
    "image": ("reference", "how", "base", "digest", "steps"),
    "container": ("name", "platform", "body"),
    "requirements": ("id", "need", "origin"),
    "watch": (),
    "claims": ("metric", "value", "concurrency", "context", "aggregate", "origin", "note"),
    "missing": ("key", "why", "how"),
    "unapplied": ("text", "why"),
    "warnings": (),
    "origins": (),
}


@pytest.mark.parametrize("made", [plan(gpus=cards(2)), plan(gpus=cards(3)), plan(bare([])), plan(bare("vllm serve m"))])
def test_a_plan_comes_back_as_it_was(made: Any) -> None:
    assert plan_from_json(json.loads(json.dumps(to_json(made)))) == made


@pytest.mark.parametrize(("key", "inner"), CONTRACT.items())
def test_every_key_of_the_contract_is_there(key: str, inner: tuple[str, ...]) -> None:
    value = to_json(plan(gpus=cards(3)))[key]
    first = value[0] if isinstance(value, list) and inner else value
    assert set(inner) <= set(first)


def test_windows_have_seconds_and_how() -> None:
    assert all({"seconds", "how"} <= set(window) for window in to_json(plan())["watch"].values())


def test_an_unknown_engine_has_its_keys_with_nothing_in_them() -> None:
    assert to_json(plan(bare([])))["engine"]["kind"] is None


@pytest.mark.parametrize("spoil", [{"recipe": None}, {"watch": {}}, {"engine": {"kind": "abacus"}}, {"claims": 3}])
def test_a_stored_plan_that_cannot_be_read_is_an_error(spoil: dict[str, Any]) -> None:
    with pytest.raises(BadPlan, match="cannot read the stored plan"):
        plan_from_json(to_json(plan()) | spoil)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(to_json(plan()))), json_values)
def test_any_value_at_any_key_is_read_or_refused(key: str, value: Any) -> None:
    with suppress(AgentError):
        plan_from_json(to_json(plan()) | {key: value})


def changes(**inputs: Any) -> dict[str, tuple[Any, Any, bool]]:
    return {c.path: (c.old, c.new, c.restart) for c in diff(plan(gpus=cards(2)), plan(gpus=cards(2), **inputs)).changes}


def test_equal_plans_have_no_difference() -> None:
    same = diff(plan(), plan())
    assert (same.changes, same.restart) == ((), False)
    assert list(same.lines()) == ["No changes: what runs is what would run."]


def test_what_runs_needs_a_restart_and_what_watches_does_not() -> None:
    assert changes(sets={"env.A": "2"})["container.body.Env"] == ("A=1", "A=2", True)
    assert changes(sets={"port": "8001"})["container.body.HostConfig.PortBindings.8000/tcp[0].HostPort"][2]
    only_watch = diff(plan(), plan(sets={"watch.stall": "90s"}))
    assert {change.path for change in only_watch.changes} >= {"watch.stall.seconds"}
    assert not only_watch.restart
    assert list(only_watch.lines())[-1].endswith("none needs a restart.")


def test_a_command_line_is_compared_by_its_options() -> None:
    added = {"launch": {"arguments": [{"argv": ["--max-num-seqs", "64"]}]}}
    assert changes(site=added)["container.body.Cmd"] == (None, "--max-num-seqs 64", True)
    launch = recipe().launch
    longer = [*launch[:-4], "--max-model-len", "65536", *launch[-2:]]
    made = diff(plan(), plan(recipe(longer)))
    assert "~ container.body.Cmd: --max-model-len 32768 → --max-model-len 65536   # needs a restart" in made.lines()


def test_a_strangers_text_cannot_drive_the_terminal() -> None:
    evil = plan(recipe(title="\x1b[2J\x1b]0;owned\x07 title\r\nline"))
    assert not [char for char in show(evil) if not char.isprintable() and char != "\n"]
    assert printable("a\x1b[31mb\u202e") == "a[31mb"
