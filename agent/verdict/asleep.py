"""Was the engine put to sleep, or told to end?"""

from __future__ import annotations

from agent.engines.model import Pong
from agent.verdict.case import Case
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Remedy, Verdict


def judge(case: Case) -> Verdict | None:
    """The engine's own word: sleep levels, a pause that keeps requests. Nothing moves then, and nothing should."""
    ping = case.last.ping
    if isinstance(ping, Pong) and ping.asleep:
        return Verdict(Judged.ASLEEP, "the engine says that it is paused or sleeps; queued requests wait for it")
    if case.marks.effort.paused is not None:
        return Verdict(Judged.ASLEEP, "the log says that it was told to stand still; queued requests wait for it")
    ranks = [name for name, mark in case.marks.ranks.items() if mark.last.asleep] if case.scraped else []
    if ranks:
        return Verdict(Judged.ASLEEP, f"the engine says that it sleeps (rank {', '.join(sorted(ranks))})")
    return None


def draining(case: Case) -> Verdict | None:
    """It was told to end, by somebody else: it may finish what it has, and its closed port is no death.

    An engine that was told to end and neither ends nor moves (vLLM with a client that holds its socket) is taken down
    after the time that a stop of ours would give it and that of an engine that cannot be looked at.
    """
    since = case.marks.effort.draining
    if since is None:
        return None
    if case.last.stop is not None:
        return Verdict(Judged.UNOBSERVABLE, "a person asked it to stop; it is ending", kind=Kind.DRAIN)
    patience = case.watch.term_clients.value + case.watch.unobservable.value
    alive = case.alive
    if case.since(since) < patience or (alive is not None and case.since(alive) < patience):
        return Verdict(Judged.UNOBSERVABLE, "it was told to end and finishes what it has", kind=Kind.DRAIN)
    return Verdict(
        Judged.DEAD,
        f"it was told to end {case.since(since):.0f} s ago, and neither ends nor moves",
        kind=Kind.DRAIN,
        remedy=Remedy.RESTART,
    )
