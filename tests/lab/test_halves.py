"""Two runs side by side say together what one would have said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.lab.halves import NOTHING_COLLECTED, total
from tests.lab.place import REPOSITORY

ONE = "tests/lab/test_halves.py::test_the_counts_are_added"


def test_the_counts_are_added() -> None:
    text = "x\ntests: 2 passed, 1 failed, 0 skipped\n== the others\ntests: 3 passed, 0 failed, 4 skipped\n"
    assert total(text) == "tests: 5 passed, 1 failed, 4 skipped"


def ran(*words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.lab.halves", "-q", *words],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.splitlines()[-1]


def test_a_test_of_one_half_is_enough() -> None:
    """The other half has none, which is no failure."""
    assert ran(ONE) == (0, "tests: 1 passed, 0 failed, 0 skipped")


def test_no_test_at_all_is_told() -> None:
    assert ran(ONE, "-k", "no_such_test")[0] == NOTHING_COLLECTED


def test_a_failure_of_either_half_is_one_of_both(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    assert False\n")
    assert ran(str(tmp_path / "test_it.py"))[0] == 1
