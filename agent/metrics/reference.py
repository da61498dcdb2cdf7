"""`config/prometheus/METRICS.md`, written from the families: every metric with its type, labels and meaning.

`python -m agent.metrics.reference > config/prometheus/METRICS.md` writes it; a test holds the file against this.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from agent.action.record import State, Supervision
from agent.metrics.names import FAMILIES, Family
from agent.verdict.kinds import FAULT_KINDS, STALL_KINDS, SUSPECT_REASONS

HEAD = """\
# Metrics

What `GET /metrics` shows (`127.0.0.1:9465` by default). Made by `python -m agent.metrics.reference`.

- Counters of a deployment exist at 0 from its first moment, so that the first stall is an increase.
- A reading that failed has no sample: nothing unknown is ever shown as 0.
- A deployment that is gone leaves no series behind.
- A scrape reads what the agent saw last and does no I/O.
"""
VALUES: dict[str, Iterable[str]] = {
    "`deployment_state{state}`": State,
    "`supervision{mode}`": Supervision,
    "`suspects_total{reason}`": SUSPECT_REASONS,
    "`stalls_total{kind}`": STALL_KINDS,
    "`restarts_total{reason}`, `would_restart_total{reason}`, `incidents_total{kind}`": FAULT_KINDS,
}


def document() -> str:
    """The whole file."""
    return "\n".join([HEAD, *table(FAMILIES), "", "## Values of labels", "", *values()]) + "\n"


def table(families: Iterable[Family]) -> Iterator[str]:
    yield "| metric | type | labels | meaning |"
    yield "| --- | --- | --- | --- |"
    for one in families:
        labels = ", ".join(f"`{label}`" for label in one.labels)
        yield f"| `{one.full}` | {one.kind} | {labels} | {one.help} |"


def values() -> Iterator[str]:
    """The closed sets; other labels are names of this host's things."""
    for name, known in VALUES.items():
        yield f"- {name}: {', '.join(f'`{value}`' for value in ordered(known))}"


def ordered(known: Iterable[str]) -> list[str]:
    """A set by its letters, an enumeration as it stands."""
    return sorted(known) if isinstance(known, frozenset) else [str(value) for value in known]


if __name__ == "__main__":
    sys.stdout.write(document())
