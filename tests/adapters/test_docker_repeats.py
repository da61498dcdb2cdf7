"""A line that an Engine gives out again after a rotation is dropped; a new one is not, whatever the clock does."""

from __future__ import annotations

from agent.adapters.docker_logs import lines
from agent.adapters.docker_repeats import KEPT, Repeats

NOW = 1_796_000_000.0


def stamp(second: float) -> bytes:
    """As the Engine writes it: always nine digits."""
    from datetime import UTC, datetime

    whole = int(second // 1)
    nanoseconds = round((second - whole) * 1e9)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z".encode()


def frame(at: float, text: bytes, stream: int = 1) -> bytes:
    payload = stamp(at) + b" " + text
    return bytes([stream, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


def given(frames: list[bytes], now: float = NOW + 1e6) -> list[str]:
    return [line.text for line in lines(frames, Repeats(lambda: now))]


def test_a_file_that_is_read_again_is_given_out_once() -> None:
    """The whole of it, though it has more lines than are known one by one."""
    count = KEPT + 500
    first = [frame(NOW + number / 1000, b"line %d\n" % number) for number in range(count)]
    again = first[100:]
    after = [frame(NOW + count, b"new\n")]
    assert given([*first, *again, *after]) == [*(f"line {number}" for number in range(count)), "new"]


def test_equal_lines_and_equal_times_are_not_repeats() -> None:
    """The same words a moment later; other words, or the other stream, in the same nanosecond."""
    frames = [
        frame(NOW, b"tick\n"),
        frame(NOW + 1, b"tick\n"),
        frame(NOW + 1, b"tock\n"),
        frame(NOW + 1, b"tick\n", stream=2),
    ]
    assert given(frames) == ["tick", "tick", "tock", "tick"]


def test_the_two_streams_may_be_a_little_out_of_order() -> None:
    many = [frame(NOW + number, b"%d\n" % number) for number in range(KEPT + 10)]
    late = frame(NOW + KEPT + 5.5, b"late\n", stream=2)
    assert given([*many, late])[-1] == "late"


def test_a_clock_that_was_set_back_loses_no_line() -> None:
    """By an hour: the newest line known lies in the future, so an old time is no proof of an old line."""
    back = NOW + KEPT + 100 - 3600
    many = [frame(NOW + number, b"%d\n" % number) for number in range(KEPT + 100)]
    after = [frame(back + number, b"after %d\n" % number) for number in range(50)]
    assert given([*many, *after], now=back + 50)[-50:] == [f"after {number}" for number in range(50)]


def test_the_pieces_of_a_long_line_are_all_taken() -> None:
    """They may have one time, and may be equal."""
    piece = b"x" * 16384
    assert given([frame(NOW, piece), frame(NOW, piece), frame(NOW, piece + b"\n")]) == ["x" * 16384 * 3]
