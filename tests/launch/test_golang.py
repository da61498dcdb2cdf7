"""Numbers, switches, durations and CSV as Go reads them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from agent.launch import golang
from agent.launch.golang import Malformed

GOOD = [
    (golang.integer, "010", 8), (golang.integer, "0x_1F", 31), (golang.integer, "-1_000", -1000),
    (golang.integer, "0o17", 15),
    (golang.unsigned, "0b11", 3), (golang.floating, "1_0.5e-1", 1.05), (golang.floating, "0x1p4", 16.0),
    (golang.floating, ".5", 0.5),
    (golang.duration, "1h30m", 5_400_000_000_000), (golang.duration, "-1.5s", -1_500_000_000),
    (golang.duration, "1µs", 1000),
    (golang.duration, "0", 0), (golang.ram, "16 GB", 16 * 1024**3), (golang.ram, "5.b", 5),
    (golang.ram, "9e18g", -(2**63)),
    (golang.ram, "1KiB", 1024), (golang.rational, "1/2", Fraction(1, 2)), (golang.rational, "1p2", Fraction(4)),
    (golang.rational, "5.", Fraction(5)), (golang.record, 'a,"b,c","d""e"', ["a", "b,c", 'd"e']),
    (golang.record, "a,", ["a", ""]),
    (golang.switch, "T", True), (golang.switch, "0", False),
]  # fmt: skip

BAD = [
    (golang.integer, "08"), (golang.integer, "1__0"), (golang.integer, ""), (golang.integer, "9" * 5000),
    (golang.integer, "١"),
    (golang.unsigned, "-1"), (golang.unsigned, "+1"), (golang.floating, "1e400"), (golang.floating, "0x10"),
    (golang.floating, " 1"),
    (golang.duration, "30"), (golang.duration, ""), (golang.duration, "s"), (golang.duration, "5x"),
    (golang.duration, "9999999h"),
    (golang.ram, "16x"), (golang.ram, "-1"), (golang.ram, ""), (golang.ram, "5gi"), (golang.ram, "5  g"),
    (golang.rational, "1/0"), (golang.rational, "x"), (golang.rational, "1.5/2"), (golang.rational, "1" * 5000),
    (golang.record, ""), (golang.record, 'a"b'), (golang.record, '"a'), (golang.record, '"a"b'),
    (golang.switch, "yes"),
]  # fmt: skip


@pytest.mark.parametrize(("read", "text", "value"), GOOD, ids=[f"{read.__name__} {text}" for read, text, _ in GOOD])
def test_values(read, text, value):
    """What Go reads, to the digit."""
    assert read(text) == value


@pytest.mark.parametrize(("read", "text"), BAD, ids=[f"{read.__name__} {text[:20]}" for read, text in BAD])
def test_malformed(read, text):
    """What Go turns down has a reason."""
    with pytest.raises(Malformed) as caught:
        read(text)
    assert str(caught.value)
