"""The form of a fault matrix: rows that must never lead to an act, rows that must be found in time; their checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent.engines.model import FailureClass
from agent.verdict.model import Judged, Remedy
from tests.verdict import scenarios as s
from tests.verdict.series import Script, Series, Tick, faults, first_fault, timeline

SUSPECT = frozenset({Judged.SUSPECT})
STARTUP: dict[str, Any] = {"ready_since": None}


@dataclass
class Quiet:
    """A row that must not fire: the states that may be seen, and the one that it ends in."""

    row: str
    script: Script
    seconds: float
    ends: Judged
    may: frozenset[Judged] = frozenset()
    also: Callable[[list[Tick]], bool] = lambda ticks: True
    how: dict[str, Any] = field(default_factory=dict)


@dataclass
class Loud:
    """A row that must fire: what is found, and within how many seconds after the fault."""

    row: str
    script: Script
    within: float
    state: Judged
    remedy: Remedy = Remedy.RESTART
    kind: str = ""
    failure: FailureClass | None = None
    fault: float = s.FAULT
    how: dict[str, Any] = field(default_factory=dict)


def must_not_fire(case: Quiet) -> None:
    """No act, no other state than the row allows, and it ends as it should."""
    ticks = Series(case.script, case.seconds, **case.how).play()
    assert not faults(ticks), timeline(ticks)
    assert {tick.verdict.state for tick in ticks} <= {case.ends, *case.may}, timeline(ticks)
    assert ticks[-1].verdict.state is case.ends, timeline(ticks)
    assert case.also(ticks), timeline(ticks)


def must_fire(case: Loud) -> None:
    """Found within the row's bound, not before the fault, as what it is."""
    ticks = Series(case.script, case.fault + case.within + 60, **case.how).play()
    found = first_fault(ticks)
    assert found is not None, timeline(ticks)
    assert case.fault <= found.at <= case.fault + case.within, timeline(ticks)
    assert found.verdict.state is case.state, timeline(ticks)
    assert found.verdict.remedy is case.remedy, timeline(ticks)
    assert found.verdict.kind == case.kind, timeline(ticks)
    if case.failure is not None:
        assert found.verdict.failure is case.failure, timeline(ticks)
    assert found.verdict.why
