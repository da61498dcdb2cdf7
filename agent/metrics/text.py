"""Prometheus' text format, by prometheus_client, in a registry of its own: the global one keeps what is gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

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
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Once(families))
    return generate_latest(registry)


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
