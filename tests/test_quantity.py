"""Sizes and durations as people write them."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from agent.quantity import Bytes, counted, parse_duration, say_duration


@pytest.mark.parametrize(
    ("text", "expect"),
    [
        ("200GiB", 200 * 2**30),
        ("64 GB", 64 * 10**9),
        ("2000 MiB", 2000 * 2**20),
        ("2,000 MiB", 2000 * 2**20),
        ("1.5TiB", 3 * 2**39),
        ("0.1 GB", 10**8),
        ("512kb", 512_000),
        (" 4096 ", 4096),
        ("7B", 7),
    ],
)
def test_a_size_is_read_in_the_units_it_names(text: str, expect: int) -> None:
    assert Bytes.parse(text) == expect


@pytest.mark.parametrize("text", ["64G", "64g", "GiB", "", "-1 GiB", "1 2 GiB", "12 parsecs", "1..5 GiB"])
def test_a_size_that_may_mean_two_things_or_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot read"):
        Bytes.parse(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (Bytes.gib(200), "200 GiB"),
        (Bytes.mib(2000), "2000 MiB"),
        (Bytes.gib(163.4), "163.4 GiB"),
        (Bytes.gib(9), "9 GiB"),
        (Bytes.gib(1.5), "1536 MiB"),
        (Bytes.gb(64), "59.6 GiB"),
        (Bytes.gib(1024), "1 TiB"),
        (Bytes(0), "0 B"),
        (Bytes(999), "999 B"),
        (Bytes.mib(-615), "-615 MiB"),
    ],
)
def test_a_size_is_shown_in_the_unit_that_says_most(size: Bytes, text: str) -> None:
    assert str(size) == text == f"{size}"


def test_sums_stay_sizes_and_json_sees_a_number() -> None:
    total = sum([Bytes.gib(1), Bytes.gib(2)], Bytes(0)) - Bytes.mib(1024)
    assert (type(total), str(total)) == (Bytes, "2 GiB")
    assert json.dumps({"need": Bytes.mib(1)}) == '{"need": 1048576}'


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("1h30m", 5400),
        ("1h 30 min", 5400),
        ("500ms", 0.5),
        ("2d", 172800),
        ("90", 90),
        ("1.5", 1.5),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "soon", "5 parsecs", "-3s", "s", "3s and a bit"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot read"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0.4 s"),
        (5, "5 s"),
        (42, "42 s"),
        (59.7, "1 min"),
        (129, "2 min 9 s"),
        (5400, "1 h 30 min"),
        (7200, "2 h"),
        (273_600, "3 d 4 h"),
        (-129, "-2 min 9 s"),
    ],
)
def test_a_duration_is_said_in_two_units_at_most(seconds: float, text: str) -> None:
    assert say_duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("number", "one", "many", "expect"),
    [
        (0, "request", "", "0 requests"),
        (1, "request", "", "1 request"),
        (1.0, "request runs", "requests run", "1 request runs"),
        (2, "request runs", "requests run", "2 requests run"),
        (2048, "token", "", "2,048 tokens"),
        (0.6, "canary", "canaries", "1 canary"),
        (1.6, "canary", "canaries", "2 canaries"),
    ],
)
def test_a_noun_agrees_with_its_number(number: float, one: str, many: str, expect: str) -> None:
    assert counted(number, one, many) == expect
