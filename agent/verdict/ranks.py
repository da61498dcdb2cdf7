"""Several data-parallel ranks: which there are, which rest, and since when nothing of them has shown."""

from __future__ import annotations

from collections.abc import Mapping

from agent.clock import Instant
from agent.samples.canaries import named
from agent.samples.marks import RankMark
from agent.verdict.case import Case


def tells(case: Case) -> bool:
    """A canary that names a rank is answered by that rank alone, and there are several."""
    return not case.blind and bool(case.marks.canaries.aims) and several(case)


def several(case: Case) -> bool:
    return case.traits.aims and len(numbers(case.marks.ranks)) > 1


def quietest(case: Case) -> tuple[str, Instant]:
    """Of the ranks with nothing to do the one that has been quiet for longest, and since when; empty: all work."""
    quiet = {number: named(case.marks.ranks, number) for number in numbers(case.marks.ranks)}
    times = {number: quiet_since(case, marks) for number, marks in quiet.items() if resting(marks)}
    return min(times.items(), key=lambda entry: entry[1].mono, default=("", case.now))


def numbers(ranks: Mapping[str, RankMark]) -> tuple[str, ...]:
    found = (mark.last.number for mark in ranks.values())
    return tuple(dict.fromkeys(number for number in found if number))


def resting(marks: tuple[RankMark, ...]) -> bool:
    """It says that nothing runs or waits, or has made no step yet; what says neither is not known to rest."""
    return bool(marks) and all(mark.last.work == 0 or mark.last.untouched for mark in marks)


def quiet_since(case: Case, marks: tuple[RankMark, ...]) -> Instant:
    """Since when its quiet counts: its last progress, or the end of what excused it."""
    known = (*(case.quiet_since(mark) for mark in marks), case.window.ready, case.marks.since)
    return max((instant for instant in known if instant is not None), key=lambda instant: instant.mono)
