"""The Engine's log stream as lines (pure): frames, pieces of long lines, times."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator

from agent.adapters.docker_repeats import Repeats
from agent.adapters.docker_views import seconds_of
from agent.container.log_text import split
from agent.container.port import LogLine

HEADER = struct.Struct(">BxxxL")
LONGEST_LINE = 1 << 20
"""Bytes after which a line that does not end is given out as it is."""

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d)) ")


def frames(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """(stream, payload) of each frame: 8 bytes of header (stream, three zeros, length), then the payload."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        while len(buffer) >= HEADER.size:
            stream, length = HEADER.unpack_from(buffer)
            end = HEADER.size + length
            if len(buffer) < end:
                break
            yield stream, bytes(buffer[HEADER.size : end])
            del buffer[:end]


def lines(chunks: Iterable[bytes], repeats: Repeats | None = None) -> Iterator[LogLine]:
    """Clean lines with the times that the Engine noted (`timestamps=1`), without those that `repeats` knows.

    The Engine cuts lines of more than 16 KiB into several frames, each with a time, only the last with an end; those of
    stdout and stderr may alternate.
    """
    pending: dict[int, tuple[bytes, float | None]] = {}
    for stream, payload in frames(chunks):
        found = _STAMP.match(payload)
        begins = stream not in pending  # the pieces of one line may have one time
        if found and begins and repeats and not repeats.is_new(found.group(1), stream, payload[found.end() :]):
            continue
        at = seconds_of(found.group(1).decode("ascii")) if found else None
        text = pending.pop(stream, (b"", None))[0] + (payload[found.end() :] if found else payload)
        if text.endswith(b"\n") or len(text) >= LONGEST_LINE:
            yield from _clean(text, at)
        else:
            pending[stream] = (text, at)
    for text, at in pending.values():
        yield from _clean(text, at)


def _clean(text: bytes, at: float | None) -> Iterator[LogLine]:
    yield from (LogLine(line, at) for line in split(text.decode("utf-8", "replace")))
