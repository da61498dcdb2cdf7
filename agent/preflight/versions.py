"""Dotted version numbers, part by part (pure)."""

from __future__ import annotations

import re
from itertools import zip_longest


def numbers(version: str) -> tuple[int, ...]:
    """The parts as numbers, up to the first that is none (`13.0.1-rc2` is 13, 0, 1); empty for what is no version."""
    match = re.match(r"\d+(?:\.\d+)*", version.strip())
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def reaches(found: str, floor: str) -> bool:
    """`610.57.04` reaches `610.57`, `580.159.04` does not reach `610`; a part that is not written is 0."""
    pairs = list(zip_longest(numbers(found), numbers(floor), fillvalue=0))
    return [have for have, _ in pairs] >= [want for _, want in pairs]


def minor(version: str) -> str:
    """The first two parts: `13.0.1` is `13.0`."""
    return ".".join(str(part) for part in numbers(version)[:2])
