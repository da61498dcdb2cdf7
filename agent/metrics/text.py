"""Prometheus' text format, version 0.0.4, written straight from rows.

prometheus_client's own writer makes an object of every sample: 9 ms for the 2,000 series of 16 deployments, where a
scrape may take 5. What is written is held against its parser in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from agent.metrics.bounds import LONGEST, Row
from agent.metrics.names import Family

ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
HELP_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def exposition(families: Iterable[tuple[Family, Iterable[Row]]]) -> bytes:
    """One text. A family without samples still has its help and type."""
    return "".join(part for family, rows in families for part in written(family, rows)).encode()


def written(family: Family, rows: Iterable[Row]) -> list[str]:
    head, line = forms(family)
    return [head, *(line % (*map(label, labels), number(value)) for labels, value in rows)]


@lru_cache(maxsize=256)
def forms(family: Family) -> tuple[str, str]:
    """The family's head, and a line of it with a place for each label and the value."""
    head = f"# HELP {family.full} {family.help.translate(HELP_ESCAPES)}\n# TYPE {family.full} {family.kind}\n"
    labels = ",".join(f'{name}="%s"' for name in family.labels)
    return head, f"{family.full}{{{labels}}} %s\n" if labels else f"{family.full} %s\n"


@lru_cache(maxsize=8192)
def label(value: str) -> str:
    """As it can be sent. JSON may hold halves of characters that no encoding takes: one would end the scrape."""
    short = value[:LONGEST]
    whole = short if short.isascii() else short.encode("utf-8", "replace").decode()
    return whole.translate(ESCAPES)


def number(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if value != value else repr(float(value))
