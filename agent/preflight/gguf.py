"""How long a GGUF file must be, by its header alone (pure).

The layout (version 2 and 3, little-endian): magic, version (u32), tensors (u64), keys (u64); each key is a name, a type
and a value; each tensor a name, its dimensions, its type and its offset into the data, which begins behind the header
at the next multiple of `general.alignment` (32 unless said). Source: the GGUF specification in ggml's docs, and the
block sizes of ggml's type traits.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from agent.preflight.shards import GGUF_MAGIC, BadShard

FIRST_READ = 1 << 20
MOST_HEADER = 1 << 28
"""Vocabularies stand in it: some ten MB for the largest ones known."""
ALIGNMENT = 32
STRING, ARRAY = 8, 9
SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Type of a value → its bytes."""
# fmt: off
BLOCKS: dict[int, tuple[int, int]] = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}
# fmt: on
"""ggml's type → elements of a block and its bytes. Forks have types of their own: then only a least size is known."""


class Short(Exception):
    """The header goes on behind what was read of it."""


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of the whole file; `exact` False: it has at least so many."""

    least: int
    exact: bool


@dataclass(slots=True)
class Cursor:
    """Where the reading of a header is."""

    data: bytes
    at: int = 0

    def take(self, form: str) -> int:
        size = struct.calcsize(form)
        if self.at + size > len(self.data):
            raise Short
        value: int = struct.unpack_from(form, self.data, self.at)[0]
        self.at += size
        return value

    def skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise Short

    def text(self) -> bytes:
        length = self.take("<Q")
        start = self.at
        self.skip(length)
        return self.data[start : self.at]


def size_of(data: bytes) -> Size:
    """From the first bytes of a file. Raises Short where they do not hold the whole header, BadShard for what is none.

    A file of big-endian numbers, or of version 1, tells nothing but that it is one.
    """
    if data[: len(GGUF_MAGIC)] != GGUF_MAGIC:
        raise BadShard("is no GGUF file")
    cursor = Cursor(data, len(GGUF_MAGIC))
    if cursor.take("<I") not in (2, 3):
        return Size(len(GGUF_MAGIC), exact=False)
    tensors, keys = cursor.take("<Q"), cursor.take("<Q")
    alignment = ALIGNMENT
    for _ in range(keys):
        alignment = key(cursor) or alignment
    ends = [tensor(cursor) for _ in range(tensors)]
    begin = math.ceil(cursor.at / alignment) * alignment
    exact = all(known for _, known in ends)
    # the last tensor is padded by writers of whole files, and not by all of them
    return Size(begin + max((end for end, _ in ends), default=0), exact)


def key(cursor: Cursor) -> int | None:
    """Past one key; the alignment where it says that."""
    name, kind = cursor.text(), cursor.take("<I")
    if name == b"general.alignment" and kind == 4:
        return max(1, cursor.take("<I"))
    value(cursor, kind)
    return None


def value(cursor: Cursor, kind: int) -> None:
    if kind == STRING:
        cursor.text()
    elif kind == ARRAY:
        inner, count = cursor.take("<I"), cursor.take("<Q")
        if inner in SCALARS:
            cursor.skip(SCALARS[inner] * count)
        else:
            for _ in range(count):
                value(cursor, inner)
    elif kind in SCALARS:
        cursor.skip(SCALARS[kind])
    else:
        raise BadShard(f"has a header that cannot be read (a value of type {kind})")


def tensor(cursor: Cursor) -> tuple[int, bool]:
    """Where the tensor ends in the data, and whether its type is known; its begin where it is not."""
    cursor.text()
    dimensions = [cursor.take("<Q") for _ in range(cursor.take("<I"))]
    kind, offset = cursor.take("<I"), cursor.take("<Q")
    if kind not in BLOCKS:
        return offset, False
    elements, size = BLOCKS[kind]
    return offset + math.ceil(math.prod(dimensions) / elements) * size, True
