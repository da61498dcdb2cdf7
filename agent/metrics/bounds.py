"""How many series a family may have: names of strangers (ranks, points) must not fill a database."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from agent.metrics.names import Family

Row = tuple[tuple[str, ...], float]
MOST = 128
"""Values of a family's last label beside the same others; engines of some dozens of ranks are the largest in use."""
LONGEST = 256
"""Characters of one label's value."""
OTHER = "other"


def bounded(family: Family, rows: Iterable[Row]) -> tuple[list[Row], int]:
    """The rows that are shown, each set of labels once, and how many were left out.

    A counter's surplus is added up under `other`, since a sum of what happened stays true; a gauge's is left out.
    """
    once = list({short(labels): value for labels, value in rows}.items())
    if len(once) <= MOST or len(family.labels) == 1:  # one label is the deployment or the collector itself
        return once, 0
    shown: list[Row] = []
    left_out = 0
    for owner, group in groupby(once, key=lambda row: row[0][:-1]):
        found = list(group)
        shown += found[:MOST]
        if rest := found[MOST:]:
            left_out += len(rest)
            if family.kind == "counter":
                shown.append(((*owner, OTHER), sum(value for _, value in rest)))
    return shown, left_out


def short(labels: tuple[str, ...]) -> tuple[str, ...]:
    """No value longer than may be; hardly one ever is."""
    for label in labels:
        if len(label) > LONGEST:
            return tuple(label[:LONGEST] for label in labels)
    return labels
