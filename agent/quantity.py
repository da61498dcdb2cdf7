"""Sizes and durations as people write them and as code counts them."""

from __future__ import annotations

import re
from datetime import timedelta

_BINARY = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_UNITS = {
    "": 1,
    "b": 1,
    **{name.lower(): factor for name, factor in _BINARY},
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
}
_SIZE = re.compile(r"\s*(\d[\d,_]*(?:\.\d+)?)\s*([A-Za-z]*)\s*")

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d)\s*")


class Bytes(int):
    """A number of bytes. An int in every respect; `str()` writes it for people (`200 GiB`, `2000 MiB`).

    Sums and differences stay `Bytes`; a product with a plain number is made explicit: `Bytes(4 * card)`.
    """

    __slots__ = ()

    @classmethod
    def gib(cls, amount: float) -> Bytes:
        """`amount` × 2**30 bytes."""
        return cls(round(amount * (1 << 30)))

    @classmethod
    def mib(cls, amount: float) -> Bytes:
        """`amount` × 2**20 bytes."""
        return cls(round(amount * (1 << 20)))

    @classmethod
    def gb(cls, amount: float) -> Bytes:
        """`amount` × 10**9 bytes, as disks and card names count."""
        return cls(round(amount * 1000**3))

    @classmethod
    def parse(cls, text: str) -> Bytes:
        """`200GiB`, `64 GB`, `2,000 MiB`, `1.5TiB`, `4096`: binary units with an i, decimal ones without.

        A lone letter (`64G`) is refused with ValueError: it means 10**9 to some and 2**30 to others.
        """
        match = _SIZE.fullmatch(text)
        if match is None or match[2].lower() not in _UNITS:
            raise ValueError(f"cannot read {text!r} as a size: write it like 200GiB, 64GB or 2000MiB")
        number, factor = match[1].replace(",", "").replace("_", ""), _UNITS[match[2].lower()]
        return cls(round(float(number) * factor) if "." in number else int(number) * factor)

    def __add__(self, other: int) -> Bytes:
        return Bytes(int(self) + int(other))

    def __radd__(self, other: int) -> Bytes:
        return Bytes(int(other) + int(self))

    def __sub__(self, other: int) -> Bytes:
        return Bytes(int(self) - int(other))

    def __str__(self) -> str:
        size = abs(int(self))
        for name, factor in _BINARY:
            # Below ten units the next smaller one says more (2000 MiB, not 1.95 GiB), unless it comes out even.
            if size >= factor and (size >= 10 * factor or size % factor == 0):
                return f"{int(self) / factor:.1f}".removesuffix(".0") + f" {name}"
        return f"{int(self)} B"

    def __repr__(self) -> str:
        return f"Bytes({int(self)})"


def counted(number: float, one: str, many: str = "") -> str:
    """A number with the noun that agrees with it: `1 request`, `2,048 tokens`; `many` where an s is not enough.

    A verb goes with its noun: `counted(n, "request runs", "requests run")`. The number is rounded to a whole one.
    """
    whole = round(number)
    return f"{whole:,} {one if whole == 1 else many or one + 's'}"


def parse_duration(text: str) -> timedelta:
    """`30s`, `5m`, `1h30m`, `500ms`, `2d`, or a bare number of seconds; ValueError otherwise."""
    stripped = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", stripped):
        return timedelta(seconds=float(stripped))
    parts = list(_DURATION_PART.finditer(stripped))
    if not parts or "".join(part[0] for part in parts) != stripped:
        raise ValueError(f"cannot read {text!r} as a duration: write it like 30s, 5m or 1h30m")
    return timedelta(seconds=sum(float(part[1]) * _SECONDS[part[2]] for part in parts))


def say_duration(span: timedelta) -> str:
    """A duration as a sentence carries it: `0.4 s`, `42 s`, `2 min 9 s`, `1 h 30 min`, `3 d 4 h`."""
    seconds = span.total_seconds()
    if abs(seconds) < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(abs(seconds))
    sign = "-" if seconds < 0 else ""
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 60:
        return f"{sign}{whole} s"
    if hours < 1:
        return sign + _two(minutes, "min", whole % 60, "s")
    if days < 1:
        return sign + _two(hours, "h", minutes % 60, "min")
    return sign + _two(days, "d", hours % 24, "h")


def _two(large: int, large_name: str, small: int, small_name: str) -> str:
    return f"{large} {large_name}" + (f" {small} {small_name}" if small else "")
