"""Weights by names and headers."""

from __future__ import annotations

import json
import struct

import pytest

from agent.preflight.shards import BadShard, full_size, header_length, missing_parts, same_split, shards_in


def header(**tensors: tuple[int, int]) -> bytes:
    entries = {name: {"dtype": "U8", "shape": [1], "data_offsets": list(ends)} for name, ends in tensors.items()}
    return json.dumps({"__metadata__": {"format": "pt"}, **entries}).encode()


def test_a_file_is_as_long_as_its_last_tensor() -> None:
    text = header(a=(0, 10), b=(10, 300))
    assert full_size(text, len(text)) == 8 + len(text) + 300
    assert full_size(b"{}", 2) == 10


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (b"\x01", "too short"),
        (struct.pack("<Q", 1 << 40), "no safetensors header"),
        (b"version https://git-lfs", "no safetensors header"),
    ],
)
def test_what_is_no_header(start: bytes, says: str) -> None:
    with pytest.raises(BadShard, match=says):
        header_length(start)


@pytest.mark.parametrize(
    "text", [b"{", b"[]", b'{"a": {}}', b'{"a": {"data_offsets": ["x", "y"]}}', b'"text"', b"\xff"]
)
def test_a_header_that_cannot_be_read(text: bytes) -> None:
    with pytest.raises(BadShard, match="cannot be read"):
        full_size(text, len(text))


def test_a_file_that_ends_within_its_header() -> None:
    with pytest.raises(BadShard, match="ends within"):
        full_size(b"{}", 20)


def test_the_index_names_its_shards() -> None:
    assert shards_in(b'{"weight_map": {"x": "a", "y": "b", "z": "a"}}') == {"a", "b"}
    with pytest.raises(BadShard):
        shards_in(b"[]")


def test_split_names_promise_the_others() -> None:
    names = ["m-00001-of-00003.gguf", "m-00003-of-00003.gguf", "other.gguf"]
    assert missing_parts(names) == ["m-00002-of-00003.gguf"]
    assert missing_parts(["whole.safetensors"]) == []
    assert same_split(names[0], names[1])
    assert not same_split(names[0], names[2])
