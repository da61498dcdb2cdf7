"""How long a GGUF file must be."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from agent.preflight.gguf import ALIGNMENT, Short, Size, size_of
from agent.preflight.shards import BadShard


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def key(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def tensor(name: str, dimensions: tuple[int, ...], kind: int, offset: int) -> bytes:
    sizes = b"".join(struct.pack("<Q", one) for one in dimensions)
    return text(name) + struct.pack("<I", len(dimensions)) + sizes + struct.pack("<IQ", kind, offset)


def head(keys: list[bytes], tensors: list[bytes], version: int = 3) -> bytes:
    counts = struct.pack("<IQQ", version, len(tensors), len(keys))
    return b"GGUF" + counts + b"".join(keys) + b"".join(tensors)


WORDS = struct.pack("<IQ", 8, 3) + text("a") + text("bc") + text("")
NESTED = struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 4, 2) + bytes(8)
KEYS = [
    key("general.architecture", 8, text("llama")),
    key("tokenizer.ggml.tokens", 9, WORDS),
    key("x.nested", 9, NESTED),
    key("x.float", 6, bytes(4)),
    key("x.bool", 7, b"\1"),
]


def aligned(length: int, to: int = ALIGNMENT) -> int:
    return -(-length // to) * to


def test_a_file_ends_with_its_last_tensor() -> None:
    data = head(KEYS, [tensor("w", (256, 4), 12, 0), tensor("v", (3, 5), 0, 576)])
    assert size_of(data) == Size(aligned(len(data)) + 576 + 60, exact=True)


def test_the_alignment_is_the_files_own() -> None:
    data = head([*KEYS, key("general.alignment", 4, struct.pack("<I", 4096))], [tensor("w", (32,), 8, 4096)])
    assert size_of(data) == Size(4096 + 4096 + 34, exact=True)


def test_a_type_of_a_fork_leaves_a_least_size() -> None:
    data = head([], [tensor("w", (256,), 144, 1024)])
    assert size_of(data) == Size(aligned(len(data)) + 1024, exact=False)


def test_a_part_without_tensors_ends_with_its_header() -> None:
    data = head(KEYS, [])
    assert size_of(data) == Size(aligned(len(data)), exact=True)


def test_every_cut_within_the_header_is_told_from_a_whole_one() -> None:
    data = head(KEYS, [tensor("w", (256, 4), 12, 0)])
    for length in range(4, len(data)):
        with pytest.raises(Short):
            size_of(data[:length])


def test_what_is_none_and_what_tells_nothing() -> None:
    with pytest.raises(BadShard, match="is no GGUF file"):
        size_of(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(BadShard, match="a value of type 99"):
        size_of(head([key("x", 99, b"")], []))
    assert size_of(head([], [], version=1)) == Size(4, exact=False)


@pytest.mark.shared
def test_a_real_file_has_its_exact_size(shared: Path) -> None:
    file = shared / "captures" / "llamacpp" / "tiny.gguf"
    data = file.read_bytes()
    size = size_of(data)
    assert size.exact
    assert 0 <= len(data) - size.least < ALIGNMENT
