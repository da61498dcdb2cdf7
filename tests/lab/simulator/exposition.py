"""Prometheus text as the Python client writes it: counters with `_total` and `_created`, histograms, summaries."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["counter", "gauge", "histogram", "summary"]
Labels = tuple[tuple[str, str], ...]


def number(value: float) -> str:
    """Go's way with floats, as the client renders them: 1.796e+09, 5442.0, +Inf."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(float(value))
    dot = text.find(".")
    if value > 0 and dot > 6:
        return f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.") + f"e+0{dot - 1}"
    return text


def labels(pairs: Iterable[tuple[str, str]]) -> str:
    """`{a="1",b="2"}`, sorted by name, escaped; nothing where there are none."""
    inner = ",".join(f'{k}="{_escape(v)}"' for k, v in sorted(pairs))
    return f"{{{inner}}}" if inner else ""


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def key(**pairs: str) -> Labels:
    """Label values in the order in which they are given."""
    return tuple(pairs.items())


@dataclass(slots=True)
class Distribution:
    """Counts per bucket (not yet cumulated), count and sum."""

    counts: list[int]
    count: int = 0
    total: float = 0.0


@dataclass(slots=True)
class Family:
    """One metric with all its series. A counter's name has no `_total`; the text adds it."""

    name: str
    kind: Kind
    help: str
    buckets: tuple[float, ...] = ()
    values: dict[Labels, float] = field(default_factory=dict)
    distributions: dict[Labels, Distribution] = field(default_factory=dict)
    created: dict[Labels, float] = field(default_factory=dict)

    def touch(self, at: Labels = ()) -> None:
        """Make the series appear at zero."""
        self.created.setdefault(at, time.time())
        if self.kind in {"histogram", "summary"}:
            self.distributions.setdefault(at, Distribution([0] * (len(self.buckets) + 1)))
        else:
            self.values.setdefault(at, 0.0)

    def inc(self, amount: float = 1.0, at: Labels = ()) -> None:
        """Add to a counter or gauge."""
        self.touch(at)
        self.values[at] += amount

    def set(self, value: float, at: Labels = ()) -> None:
        """Set a gauge."""
        self.touch(at)
        self.values[at] = value

    def observe(self, value: float, at: Labels = (), times: int = 1) -> None:
        """Put a value into the distribution, `times` over."""
        self.touch(at)
        spread = self.distributions[at]
        spread.counts[bisect_left(self.buckets, value)] += times
        spread.count += times
        spread.total += value * times

    def anew(self) -> None:
        """Every series of a counter or histogram at zero again; a gauge says what is, and stays."""
        if self.kind == "gauge":
            return
        places = [*self.values, *self.distributions]
        self.values, self.distributions, self.created = {}, {}, {}
        for at in places:
            self.touch(at)

    def render(self, *, created: bool = True) -> Iterator[str]:
        """The lines of this family, and of its `_created` sibling where the client writes one."""
        name = f"{self.name}_total" if self.kind == "counter" else self.name
        yield f"# HELP {name} {self.help}\n# TYPE {name} {self.kind}\n"
        for at, value in self.values.items():
            yield f"{name}{labels(at)} {number(value)}\n"
        for at, spread in self.distributions.items():
            yield from self._spread(at, spread)
        if created and self.kind != "gauge":
            yield f"# HELP {self.name}_created {self.help}\n# TYPE {self.name}_created gauge\n"
            for at, since in self.created.items():
                yield f"{self.name}_created{labels(at)} {number(since)}\n"

    def _spread(self, at: Labels, spread: Distribution) -> Iterator[str]:
        if self.kind == "histogram":
            running = 0
            for bound, count in zip((*self.buckets, math.inf), spread.counts, strict=True):
                running += count
                yield f"{self.name}_bucket{labels((*at, ('le', number(bound))))} {number(running)}\n"
        yield f"{self.name}_count{labels(at)} {number(spread.count)}\n"
        yield f"{self.name}_sum{labels(at)} {number(spread.total)}\n"
