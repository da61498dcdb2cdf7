"""The times of a plain process's log, found among very many."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agent.adapters import process_log
from agent.adapters.process_times import length_at, noted, times_of
from tests.lab.pace import second


def rows_in(folder: Path, count: int) -> None:
    """Each half second ten bytes more."""
    (folder / "log.times").write_text("".join(f"{at / 2:.6f} {at * 10}\n" for at in range(1, count + 1)))


@pytest.mark.parametrize("count", [0, 1, 2, 100, 250, 5000])
def test_each_is_found_as_if_all_were_read(count: int, tmp_path: Path) -> None:
    rows_in(tmp_path, count)
    assert noted(tmp_path) == count * 10
    for offset in (1, 9, 10, 11, count * 5 + 3, count * 10 - 1, count * 10, count * 10 + 1):
        row = max(-(-offset // 10), 1)
        expected = row / 2 if 1 <= row <= count else None
        assert times_of(tmp_path, offset - 1, offset).of(offset) == expected, offset
        begin = max(offset - 500, 0)
        assert times_of(tmp_path, begin, offset).of(offset) == expected, offset
    for at in (0, 1, count // 2, count - 1, count, count + 5):
        assert length_at(tmp_path, at / 2) == min(max(at, 0), count) * 10


def test_without_any_nothing_is_known(tmp_path: Path) -> None:
    assert (noted(tmp_path), length_at(tmp_path, 5.0), times_of(tmp_path, 0, 9).of(5)) == (0, 0, None)


@pytest.mark.parametrize("torn", ["17", "1764.5 ", "1764.1764.500000 30\n", "1764.1 121764.6 30\n", "\n", "\0" * 9])
def test_half_a_row_is_none(torn: str, tmp_path: Path) -> None:
    """A full disk took the rest of it, and the next row followed without an end between them."""
    (tmp_path / "log.times").write_text(f"1.000000 10\n2.000000 20\n{torn}")
    assert (noted(tmp_path), length_at(tmp_path, 9e9)) == (20, 20)
    with (tmp_path / "log.times").open("a") as file:
        file.write("\n3.000000 40\n")
    assert noted(tmp_path) == 40
    assert [times_of(tmp_path, 0, 40).of(offset) for offset in (10, 15, 35)] == [1.0, 2.0, 3.0]


def test_a_log_of_months_is_read_as_fast_as_a_new_one(tmp_path: Path) -> None:
    """Few lines and a bound in bytes: a look reads the times of what is new, not those of every line before."""
    (tmp_path / "log").write_bytes(b"123456789\n" * 400_000)
    rows_in(tmp_path, 400_000)
    begun = time.process_time()
    for back in range(20):
        batch = process_log.read_from(tmp_path, 4_000_000 - 10 * back, complete=False)
        assert [line.at for line in batch.lines] == [200_000 - at / 2 for at in reversed(range(back))]
    assert time.process_time() - begun < 1.0 * second()  # all of them parsed each time: some 6 s
