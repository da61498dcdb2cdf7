"""Versions are numbers, part by part."""

from __future__ import annotations

import pytest

from agent.preflight.versions import minor, numbers, reaches


@pytest.mark.parametrize(
    ("found", "floor", "expect"),
    [
        ("610.57.04", "610.57.4", True),
        ("610.57", "610.57.00", True),
        ("610.57", "610.57.01", False),
        ("1.9", "1.40", False),
        ("13.0", "13.0", True),
    ],
)
def test_reaches(found: str, floor: str, expect: bool) -> None:
    assert reaches(found, floor) is expect


def test_words_are_no_version() -> None:
    assert (numbers("latest"), numbers("13.0.1-rc2"), minor("13.0.1")) == ((), (13, 0, 1), "13.0")
