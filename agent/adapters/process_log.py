"""Reading the log that the wrapper keeps: lines with their times, while it forgets the oldest ones.

Offsets count from the very first byte of the log. Times come from `log.times`: a line was complete by the time at which
the log had reached its end, at most half a second after it was written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.adapters.process_times import length_at, noted, times_of
from agent.container.log_text import strip
from agent.container.port import LogLine

CHUNK = 1 << 18
LONGEST_LINE = 1 << 16
"""Bytes after which a line that does not end is given out as it is."""

_LINE = re.compile(rb"[^\r\n]*[\r\n]+")


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines, the offset to go on at, and whether nothing can follow once an offset gives nothing."""

    lines: tuple[LogLine, ...]
    at: int
    last: bool = False


def read_from(folder: Path, offset: int, *, complete: bool, ended: bool = False) -> Batch:
    """Lines from `offset` on, at most a chunk of them.

    `complete`: nobody notes times any more, so all is read and a last line without an end is one; otherwise only what
    has a noted time is read, so that the times of lines never change. `ended`: nobody writes any more either.
    """
    data, start = _bytes(folder, offset, None if complete else noted(folder))
    times = times_of(folder, start, start + len(data))
    lines: list[LogLine] = []
    used = 0
    for found in _LINE.finditer(data):
        used = found.end()
        _add(lines, found.group(), times.of(start + used))
    rest = data[used:]
    # A whole chunk has more behind it; what is left of the last one is a line only if nothing can follow.
    if rest and ((complete and len(data) < CHUNK) or len(rest) >= LONGEST_LINE):
        used = len(data)
        _add(lines, rest, times.of(start + used))
    return Batch(tuple(lines), start + used, ended)


def offset_after(folder: Path, moment: float | None) -> int:
    """Where the first line begins that was complete after `moment`."""
    if moment is None:
        return 0
    offset = length_at(folder, moment)
    back = max(offset - LONGEST_LINE, 0)
    data, start = _bytes(folder, back, offset)
    ends = [found.end() for found in re.finditer(rb"[\r\n]", data)]
    return start + ends[-1] if ends else start


def last_lines(folder: Path, count: int) -> tuple[LogLine, ...]:
    """The last `count` lines, the unfinished one included."""
    end, oldest = _length(folder), _oldest(folder)
    back = max(end - CHUNK, 0)
    while True:
        lines = tuple(_all_from(folder, back))
        # The first line of a window may be the tail of one.
        if len(lines) > count or back <= oldest:
            return lines[-count:] if count > 0 else ()
        back = max(back - (end - back), 0)


def save(folder: Path, path: Path) -> int:
    """The whole log into `path`, which is there whole or not at all; bytes written."""
    aside = path.with_name(f".{path.name}.new")
    try:
        with aside.open("wb") as target:
            end, at = _length(folder), 0
            while (piece := _bytes(folder, at, end))[0]:
                target.write(piece[0])
                at = piece[1] + len(piece[0])
            target.flush()
            os.fsync(target.fileno())
            size = target.tell()
        aside.rename(path)
    finally:
        aside.unlink(missing_ok=True)
    return size


def _add(lines: list[LogLine], raw: bytes, at: float | None) -> None:
    if text := strip(raw.decode("utf-8", "replace")):
        lines.append(LogLine(text, at))


def _all_from(folder: Path, offset: int) -> Iterator[LogLine]:
    while True:
        batch = read_from(folder, offset, complete=True)
        yield from batch.lines
        if batch.at == offset:
            return
        offset = batch.at


def _parts(folder: Path) -> list[tuple[int, Path]]:
    """The files of the log with the offset at which each begins, oldest first."""
    rotated = sorted((int(path.name[4:]), path) for path in folder.glob("log.*") if path.name[4:].isdigit())
    try:
        base = int((folder / "log.base").read_text(encoding="ascii"))
    except FileNotFoundError:
        base = 0
    if rotated and rotated[-1][0] >= base:  # just rotated, the new base is about to be written
        base = rotated[-1][0] + rotated[-1][1].stat().st_size
    current = folder / "log"
    return [*rotated, (base, current)] if current.exists() else rotated


def _oldest(folder: Path) -> int:
    """The offset of the oldest byte that is kept."""
    try:
        first = int((folder / "log.first").read_text(encoding="ascii"))
    except FileNotFoundError:
        first = 0
    parts = _parts(folder)
    return max(first, parts[0][0]) if parts else first


def _length(folder: Path) -> int:
    parts = _parts(folder)
    return parts[-1][0] + parts[-1][1].stat().st_size if parts else 0


def _bytes(folder: Path, offset: int, limit: int | None) -> tuple[bytes, int]:
    """A chunk at `offset`, or at the oldest byte that is kept; never beyond `limit`."""
    while True:
        start = max(offset, _oldest(folder))
        data = _kept(folder, start, limit)
        if _oldest(folder) <= start:  # else it was forgotten while it was read, and reads as zeros
            return data, start


def _kept(folder: Path, offset: int, limit: int | None) -> bytes:
    wanted = CHUNK if limit is None else max(min(CHUNK, limit - offset), 0)
    data = b""
    for begin, path in _parts(folder):
        at = offset + len(data)
        if begin <= at and len(data) < wanted:
            with path.open("rb") as file:
                file.seek(at - begin)
                data += file.read(wanted - len(data))
    return data
