"""Several data-parallel ranks: which there are, which rest, and since when nothing of them has shown."""

from __future__ import annotations

from collections.abc import Mapping

from agent.clock import Instant
from agent.engines.model import EngineReading
from agent.samples.canaries import STEPS, named
from agent.samples.marks import RankMark
from agent.verdict.case import Case

STALL_STEPS = 30
"""Steps of the longest kind in the window `stall`."""


def tells(case: Case) -> bool:
    """A canary that names a rank is answered by that rank alone, and there are several."""
    return not case.blind and bool(case.marks.canaries.aims) and several(case)


def several(case: Case) -> bool:
    return case.traits.aims and len(numbers(shown(case))) > 1


def shown(case: Case) -> Mapping[str, RankMark]:
    """The ranks of this look. One that it does not show may have been taken away, and says nothing any more."""
    scrape = case.last.scrape
    names = {rank.rank for rank in scrape.ranks} if isinstance(scrape, EngineReading) else set[str]()
    return {name: mark for name, mark in case.marks.ranks.items() if name in names}


def whom(case: Case) -> str:
    """The rank to ask of an idle engine, where a question may name one: the one that gave no token, else the quietest.

    So long as it is not known whether a number counts, each is asked twice running, and then another (`aims`).
    """
    canaries = case.marks.canaries
    if not several(case) or canaries.aims is False:
        return ""
    last = canaries.rank if canaries.strikes else canaries.own[-1] if len(canaries.own) % 2 else ""
    return last if last in numbers(shown(case)) else quietest(case, but=canaries.own[-1:])[0]


def quietest(case: Case, but: tuple[str, ...] = ()) -> tuple[str, Instant]:
    """Of the ranks with nothing to do the one that has been quiet for longest, and since when; empty: all work."""
    there = shown(case)
    quiet = {number: named(there, number) for number in numbers(there) if number not in but}
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


def answers_in(case: Case) -> float:
    """Seconds for the answer of what shows nothing to do.

    Its gauges are written at the end of a step, so a prefill that came a moment ago does not show; and ranks that share
    a step (expert parallel) answer after the others' step. A step is a chunk, or without chunks a whole prompt: then it
    is waited for as long as a canary may take behind one. Where others work, they are to be seen to make steps: looks
    twice as many, for one may be late or miss its scrape.
    """
    watch = case.watch
    looks = 2 * STEPS * watch.period.value if case.work else 0.0
    if case.engine is not None and not case.engine.chunked:
        return max(watch.canary_idle_timeout.value, watch.canary_timeout.value, looks)
    steps = STEPS * (watch.stall.seconds or 0.0) / STALL_STEPS
    return max(watch.canary_idle_timeout.value, min(steps, watch.canary_timeout.value), looks)
