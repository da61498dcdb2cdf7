"""Runs side by side say together what one would have said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.parts import NOTHING_COLLECTED, PARTS, side_by_side, total

HERE = "tests/lab/test_run_parts.py::test_the_counts_are_added"


def test_the_counts_are_added() -> None:
    text = "x\ntests: 2 passed, 1 failed, 0 skipped\n== the others\ntests: 3 passed, 0 failed, 4 skipped\n"
    assert total(text) == "tests: 5 passed, 1 failed, 4 skipped"


def test_every_test_is_in_one_part() -> None:
    """By construction: two have the real parts, with and without some folders, the third has all the rest."""
    (first, *apart), (second, _, *ignored), (third, _) = ([part[1], *part[2:]] for part in PARTS)
    assert first == second
    assert [f"--ignore={folder}" for folder in apart] == ignored
    assert third == first.replace("and (", "and not (")


def test_a_part_without_a_test_is_no_failure(capfd: pytest.CaptureFixture[str]) -> None:
    assert side_by_side([("-q", HERE), ("-q", HERE, "-k", "no_such_test")]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "tests: 1 passed, 0 failed, 0 skipped"


def test_no_test_at_all_is_told() -> None:
    assert side_by_side([("-q", HERE, "-k", "no_such_test")]) == NOTHING_COLLECTED


def test_a_failure_of_one_is_one_of_all(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    assert False\n")
    assert side_by_side([("-q", HERE), ("-q", str(tmp_path / "test_it.py"))]) == 1
