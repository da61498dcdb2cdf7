"""When a plain process's log had reached which length: `log.times`, which its wrapper writes twice a second.

A log that is bounded by its bytes may have a million rows after months of few lines. Rows are found by bisection, and
only those that are asked for are read.
"""

from __future__ import annotations

import bisect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BLOCK = 4096
ROOM = 256
"""Bytes in which there is a whole row: one has some 30."""

_ROW = re.compile(rb"^(\d+\.\d{6}) (\d{1,18})\n", re.MULTILINE)
"""Whole ones alone; a wrapper that ran out of disk may have left half a one."""

Row = tuple[float, int]


@dataclass(frozen=True, slots=True)
class Times:
    """When the log had reached which length."""

    at: tuple[float, ...] = ()
    end: tuple[int, ...] = ()

    def of(self, offset: int) -> float | None:
        """When the byte before `offset` was there; None where nobody noted it."""
        index = bisect.bisect_left(self.end, offset)
        return self.at[index] if index < len(self.at) else None


def times_of(folder: Path, first: int, last: int) -> Times:
    """For the bytes from `first` on, as far as `last`."""
    with _Rows(folder) as rows:
        at = rows.first(lambda row: row[1] > first)
        found: list[Row] = []
        while at < rows.size and (not found or found[-1][1] < last):
            part, at = rows.block(at)
            found += part
    return Times(tuple(row[0] for row in found), tuple(row[1] for row in found))


def noted(folder: Path) -> int:
    """How long the log was when its length was noted last."""
    with _Rows(folder) as rows:
        return rows.before(rows.size)


def length_at(folder: Path, moment: float) -> int:
    """How long the log was then."""
    with _Rows(folder) as rows:
        return rows.before(rows.first(lambda row: row[0] > moment))


class _Rows:
    """The file as it is now: rows that come meanwhile are not seen, and one that replaces it is not either."""

    def __init__(self, folder: Path) -> None:
        try:
            self._file: int | None = os.open(folder / "log.times", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._file = None
        self.size = 0 if self._file is None else os.fstat(self._file).st_size

    def __enter__(self) -> _Rows:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)

    def first(self, reached: Callable[[Row], bool]) -> int:
        """Where the first row begins that is `reached`, or the end."""
        low, high = 0, self.size
        while high - low > BLOCK:
            middle = (low + high) // 2
            rows = [row for _, row in self._in(middle, ROOM)]
            low, high = (low, middle + ROOM) if rows and reached(rows[0]) else (middle, high)
        return next((at for at, row in self._in(low, high - low) if reached(row)), self.size)

    def before(self, at: int) -> int:
        """The length in the last row in front of `at`; 0 where there is none."""
        rows = self._in(max(at - ROOM, 0), at - max(at - ROOM, 0))
        return rows[-1][1][1] if rows else 0

    def block(self, at: int) -> tuple[list[Row], int]:
        """Rows from `at`, where one begins, and where the next one does."""
        data = self._read(at, BLOCK)
        whole = data.rfind(b"\n") + 1
        found = [_row(match) for match in _ROW.finditer(data[:whole])]
        return found, at + whole if whole else self.size

    def _in(self, at: int, length: int) -> list[tuple[int, Row]]:
        """Whole rows that begin behind `at`, or there where the file does, with their places."""
        data = self._read(at, length)
        skip = data.find(b"\n") + 1 if at else 0
        return [(at + skip + match.start(), _row(match)) for match in _ROW.finditer(data[skip:])]

    def _read(self, at: int, length: int) -> bytes:
        return b"" if self._file is None else os.pread(self._file, min(length, self.size - at), at)


def _row(match: re.Match[bytes]) -> Row:
    return float(match[1]), int(match[2])
