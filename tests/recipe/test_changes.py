"""Other bytes are a note while only votes and dates moved, and a revision as soon as anything that decides did."""

from __future__ import annotations

from typing import Any

import pytest

from agent.recipe.changes import Kind, compare
from agent.recipe.read import read_recipe
from tests.recipe.documents import document, encode


def state(**changes: Any) -> Any:
    return read_recipe(encode(document(**changes)), "a site")


@pytest.mark.parametrize(
    ("changes", "kind", "paths"),
    [
        ({}, Kind.SAME, []),
        (
            {"votes": 7, "updated_at": "2026-11-01", "aa": {"aa_index": 40}},
            Kind.NOTE,
            ["aa", "updated_at", "votes"],
        ),
        ({"config": document()["config"] | {"max_context_len": 65536}}, Kind.REVISION, ["config.max_context_len"]),
        ({"hardware": []}, Kind.REVISION, ["hardware[0]"]),
        ({"revision": {"no": 4, "content_hash": "d" * 40}}, Kind.REVISION, ["revision.no"]),
    ],
)
def test_the_kind_of_a_difference(changes: dict[str, Any], kind: Kind, paths: list[str]) -> None:
    difference = compare(state(), state(**changes))
    assert difference.kind is kind
    assert set(paths) <= {change.path for change in difference.changes}


def test_what_decides_comes_first_and_json_in_a_text_is_looked_into() -> None:
    performance = [{"claimed_by": "submitter", "metrics": '{"notes": "other"}'}]
    difference = compare(state(), state(votes=9, performance=performance))
    assert difference.changes[0].path.startswith("performance[0].metrics")
    assert difference.changes[-1].path == "votes"


def test_a_content_hash_that_did_not_move_with_its_content_is_said() -> None:
    assert "proves nothing" in compare(state(), state(hardware=[])).remark
