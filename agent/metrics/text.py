"""Prometheus' text format, by prometheus_client, in a registry of its own: the global one keeps what is gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from agent.metrics.bounds import LONGEST, Row
from agent.metrics.names import PREFIX, Family

Shown = Iterable[tuple[Family, Iterable[Row]]]


class Once(Collector):
    """Gives one set of families."""

    def __init__(self, families: Shown) -> None:
        self._families = families

    def describe(self) -> Iterator[Metric]:
        """Nothing in advance: what there is changes with what is deployed."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        for family, rows in self._families:
            yield metric(family, rows)


def exposition(families: Shown) -> bytes:
    """One text. A family without samples still has its help and type."""
    return "".join(part for family, rows in families for part in _lines(family, list(rows))).encode()


class Series:
    """What stands before the values, as prometheus_client writes it.

    Nearly all of a scrape's cost is the writing of names and labels, which are those of the scrape before.
    """

    def __init__(self, most: int = 32_768) -> None:
        self._most = most
        self._heads: dict[tuple[str, tuple[str, ...]], str] = {}

    def of(self, family: Family, rows: Sequence[Row]) -> list[str]:
        """The series of each row, up to its value."""
        name = family.full
        new = [row for row in rows if (name, row[0]) not in self._heads]
        if new:
            if len(self._heads) + len(new) > self._most:  # what is gone is not told from what stays: begin again
                self._heads.clear()
                new = list(rows)
            lines = _written(family, new).split("\n")[2:-1]  # not splitlines: a label may hold what it ends a line at
            for (labels, _), line in zip(new, lines, strict=True):
                self._heads[name, labels] = line.rpartition(" ")[0]
        return [self._heads[name, labels] for labels, _ in rows]


_series = Series()


def _lines(family: Family, rows: list[Row]) -> Iterator[str]:
    yield _heading(family)
    for head, (_, value) in zip(_series.of(family, rows), rows, strict=True):
        yield f"{head} {_number(value)}\n"


_number = lru_cache(maxsize=4096)(floatToGoString)
"""Most values are 0 or 1."""


@lru_cache(maxsize=256)
def _heading(family: Family) -> str:
    """Its help and its type."""
    return _written(family, ())


def _written(family: Family, rows: Sequence[Row]) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Once(((family, rows),)))
    return generate_latest(registry).decode()


def metric(family: Family, rows: Iterable[Row]) -> Metric:
    """One family with its samples."""
    made = Metric(PREFIX + family.name, family.help, family.kind)
    names = family.labels
    made.samples = [
        Sample(family.full, dict(zip(names, map(label, labels), strict=True)), float(value)) for labels, value in rows
    ]
    return made


@lru_cache(maxsize=8192)
def label(value: str) -> str:
    """As it can be sent. JSON may hold halves of characters that no encoding takes: one would end the scrape."""
    short = value[:LONGEST]
    return short if short.isascii() else short.encode("utf-8", "replace").decode()
