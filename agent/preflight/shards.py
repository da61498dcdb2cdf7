"""What a folder of weights should hold, read from names and headers alone (pure).

A safetensors file is an 8-byte little-endian length, that many bytes of JSON, then the tensors; the JSON's largest
`data_offsets` end says how long the file must be. A cut file loads or fails late; a missing shard can boot with random
weights (sglang#32279).
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable

LENGTH_BYTES = 8
MOST_HEADER = 100_000_000
"""The format's own limit."""
INDEX = "model.safetensors.index.json"
GGUF_MAGIC = b"GGUF"
_SPLIT = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.(?P<suffix>gguf|safetensors)")


class BadShard(ValueError):
    """A file that is not what its name says, in words."""


def header_length(start: bytes) -> int:
    """Length of the JSON header, from the first 8 bytes."""
    if len(start) < LENGTH_BYTES:
        raise BadShard("is too short for a header")
    length = int(struct.unpack("<Q", start[:LENGTH_BYTES])[0])
    if not 2 <= length <= MOST_HEADER:
        raise BadShard("has no safetensors header")
    return length


def full_size(header: bytes, length: int) -> int:
    """How many bytes the whole file must have, from its JSON header."""
    if len(header) < length:
        raise BadShard("ends within its header")
    try:
        entries = json.loads(header[:length])
        ends = [entry["data_offsets"][1] for name, entry in entries.items() if name != "__metadata__"]
        return LENGTH_BYTES + length + max(map(int, ends), default=0)
    except (ValueError, RecursionError, OverflowError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise BadShard("has a header that cannot be read") from error


def shards_in(index: bytes) -> frozenset[str]:
    """The files that an index names."""
    try:
        names = json.loads(index)["weight_map"].values()
        return frozenset(str(name) for name in names)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise BadShard("cannot be read as an index of shards") from error


def missing_parts(names: Iterable[str]) -> list[str]:
    """Files that split names (`x-00001-of-00004.gguf`) promise and that are not among them."""
    present = set(names)
    promised = [name for match in map(_SPLIT.fullmatch, present) if match for name in parts_of(match)]
    return sorted(set(promised) - present)


def parts_of(match: re.Match[str]) -> list[str]:
    total = int(match["parts"])
    return [f"{match['stem']}-{part:05d}-of-{match['parts']}.{match['suffix']}" for part in range(1, total + 1)]


def same_split(one: str, other: str) -> bool:
    """Whether both are parts of one split file."""
    first, second = _SPLIT.fullmatch(one), _SPLIT.fullmatch(other)
    if first is None or second is None:
        return False
    return all(first[group] == second[group] for group in ("stem", "parts", "suffix"))
