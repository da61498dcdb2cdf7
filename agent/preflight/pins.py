"""What the source of a weights file stated about it when it was fetched (pure).

`hf download --local-dir` keeps `.cache/huggingface/download/FILE.metadata` beside the files: the commit, the ETag, the
time. Of a large file the ETag is its SHA-256 (64 hex digits); of a small one it is git's own hash of the text. In the
Hub's own cache a file is a link to `blobs/SHA256`. Whoever converts a model may leave a `SHA256SUMS` with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

SUMS = "SHA256SUMS"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LINE = re.compile(r"(?P<sum>[0-9a-f]{64})[ \t]+[*]?(?:\./)?(?P<name>\S.*)")


@dataclass(frozen=True, slots=True)
class Pin:
    """The SHA-256 that a file should have, who says so, and the commit of the repository where it is known."""

    sha256: str
    origin: str
    commit: str | None = None


def of_metadata(text: str) -> Pin | None:
    """From a `.metadata` file; None for a small file, whose ETag is no SHA-256."""
    commit, etag, *_ = [*(line.strip() for line in text.splitlines()), "", ""]
    return Pin(etag, "the Hub, when it was fetched", commit) if _SHA256.fullmatch(etag) else None


def of_blob(real: str) -> Pin | None:
    """From where a link of the Hub's cache ends."""
    folder, _, name = real.rpartition("/")
    return Pin(name, "its name in the Hub's cache") if folder.endswith("/blobs") and _SHA256.fullmatch(name) else None


def of_sums(text: str) -> Mapping[str, Pin]:
    """From `SHA256SUMS`: name → pin."""
    lines = (_LINE.fullmatch(line.strip()) for line in text.splitlines())
    return {line["name"]: Pin(line["sum"], SUMS) for line in lines if line}
