"""Does the HTTP side outlive a dead engine core?"""

from __future__ import annotations

from agent.clock import Instant
from agent.engines.model import FailureClass, LogEvent
from agent.samples.model import Health, Miss, Missed
from agent.verdict.case import Case
from agent.verdict.failure import WORDS, root_cause
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Remedy, Verdict

FATAL = frozenset(
    {
        FailureClass.ENGINE_DEAD,
        FailureClass.WORKER_DIED,
        FailureClass.CUDA_FAULT,
        FailureClass.NCCL,
        FailureClass.HANG,
    }
)


def judge(case: Case) -> Verdict | None:
    """The health flag says so where it is one (vLLM), or the log does and nothing moved since.

    A lone 503 is believed at once with a fatal line beside it, else on the second look. A fatal line alone may be one
    request's: it counts once nothing has moved after it and the engine does not answer as it should.
    """
    return unhealthy(case) or fatal_line(case) or cards_lost(case)


def unhealthy(case: Case) -> Verdict | None:
    health = case.last.health
    since = case.marks.answers.unhealthy
    if not case.traits.unhealthy_is_dead or not isinstance(health, Health) or health.status != 503 or since is None:
        return None
    line = fatal(case)
    if line is None and turned_away(case) and case.now - since < case.watch.start_alert.value:
        return Verdict(
            Judged.UNOBSERVABLE,
            "its HTTP side turns everybody away (503), as it does while ranks are added or taken away",
            blind=("metrics",),
        )
    if line is None and case.now - since < min(case.watch.period.value, case.watch.refused.value):
        return Verdict(Judged.SUSPECT, "the health path says 503; looks once more", kind=Kind.ENGINE_DEAD)
    return dead(case, "the health path says that the engine core is dead (503)", line)


def turned_away(case: Case) -> bool:
    """The metrics are refused as well, and were not before: 503 is no flag of a dead core then, which leaves them as
    they are. vLLM answers every path so while it scales its data-parallel ranks (its ScalingMiddleware)."""
    scrape = case.last.scrape
    return isinstance(scrape, Missed) and scrape.kind is Miss.HTTP and case.marks.answers.scraped is not None


def fatal_line(case: Case) -> Verdict | None:
    line, at = fatal(case), fatal_at(case)
    if line is None or at is None or moved_after(case, at) or answers_well(case):
        return None
    if case.now - at < case.watch.refused.value:
        return Verdict(
            Judged.SUSPECT, f"the log says: {WORDS[line.failure or FailureClass.UNKNOWN]}", kind=Kind.ENGINE_DEAD
        )
    return dead(case, f"nothing moved since the log said: {WORDS[line.failure or FailureClass.UNKNOWN]}", line)


def cards_lost(case: Case) -> Verdict | None:
    """The container has lost its cards (a reload of systemd takes them away); tokens after the line say otherwise."""
    for at, event in zip(case.marks.failed, case.window.failures, strict=False):
        if event.failure is FailureClass.NVML_LOST and in_service(case, at) and not moved_after(case, at):
            if case.now - at < 2 * case.watch.period.value:
                return Verdict(Judged.SUSPECT, "the log says that the cards cannot be reached", kind=Kind.NVML_LOST)
            return Verdict(
                Judged.DEAD,
                "the container has lost its cards: a new one is needed",
                kind=Kind.NVML_LOST,
                remedy=Remedy.RESTART,
                failure=FailureClass.NVML_LOST,
                evidence=(event.text,),
            )
    return None


def fatal(case: Case) -> LogEvent | None:
    """The first root cause among the lines that end an engine, if one of them was written."""
    if fatal_at(case) is None:
        return None
    return root_cause(case.window.failures)


def fatal_at(case: Case) -> Instant | None:
    for at, event in zip(case.marks.failed, case.window.failures, strict=False):
        if event.failure in FATAL and in_service(case, at):
            return at
    return None


def in_service(case: Case, at: Instant) -> bool:
    """Written after it was ready: what a start complained of, it outlived."""
    return case.window.ready is not None and at.mono > case.window.ready.mono


def moved_after(case: Case, at: Instant) -> bool:
    progressed = case.marks.progressed
    token = case.marks.canaries.token
    return any(proof is not None and proof.mono > at.mono for proof in (progressed, token, case.marks.effort.spoke))


def answers_well(case: Case) -> bool:
    """The health path and the metrics: the engine may have survived its own line; silence under work is judged
    elsewhere."""
    healthy = isinstance(case.last.health, Health) and case.last.health.status < 500
    return healthy and (case.scraped or case.blind) and not case.marks.canaries.strikes


def dead(case: Case, why: str, line: LogEvent | None) -> Verdict:
    failure = (line.failure if line is not None else None) or FailureClass.ENGINE_DEAD
    return Verdict(
        Judged.DEAD,
        why,
        kind=Kind.ENGINE_DEAD,
        remedy=Remedy.RESTART,
        failure=failure,
        evidence=(line.text,) if line is not None else (),
    )
