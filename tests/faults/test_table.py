"""No row is without its tests, no test is named that is not there, and the page says what is."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import table
from tests.faults.plays import PLAYS
from tests.lab.place import REPOSITORY

PAGE = REPOSITORY / "agent/verdict/MATRIX.md"


def test_the_page_is_what_the_table_makes() -> None:
    """`python -m tests.faults.table > agent/verdict/MATRIX.md` makes it."""
    assert PAGE.read_text() == "\n".join(table.page()) + "\n"


@pytest.mark.parametrize("name", table.ROWS)
def test_every_row_is_held_on_paper_and_in_real_time_or_says_why_not(name: str) -> None:
    row = table.ROWS[name]
    assert table.cases(name) or row.pure
    assert table.plays(name) or row.live or row.why


@pytest.mark.parametrize("test", sorted({one for row in table.ROWS.values() for one in (*row.pure, *row.live)}))
def test_the_tests_that_are_named_are_there(test: str) -> None:
    file, _, function = test.partition("::")
    assert re.search(rf"^(?:async )?def {function}\(", (REPOSITORY / file).read_text(), re.MULTILINE)


@pytest.mark.shared
def test_the_rows_are_those_of_the_matrix(shared: Path) -> None:
    found = re.findall(r"^\| ([NF]\d+) \|", (shared / "faults.md").read_text(), re.MULTILINE)
    assert sorted(found) == sorted(table.ROWS)


def test_no_two_plays_have_one_name() -> None:
    assert not [name for name, count in Counter(play.id for play in PLAYS).items() if count > 1]
    assert {table.row_of(play.row) for play in PLAYS} <= set(table.ROWS)
