"""Does a start-up move? It is judged by movement alone, never by the wall clock."""

from __future__ import annotations

from datetime import timedelta

from agent.engines.model import Phase
from agent.quantity import say_duration
from agent.samples.fold import compilers
from agent.verdict.case import Case
from agent.verdict.failure import WORDS, root_cause
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Remedy, Verdict

TOLD = 0.05
"""A step's percent says how long the rest takes once so much of it is done."""

PHRASES = {
    Phase.BOOT: "boots",
    Phase.LOAD: "loads the model",
    Phase.COMPILE: "compiles kernels",
    Phase.KV_CACHE: "lays out the KV cache",
    Phase.GRAPHS: "captures graphs",
    Phase.WARM_UP: "warms up",
    Phase.READY: "opens its port",
}


def judge(case: Case) -> Verdict | None:
    """Until it was ready once, nothing else is asked: a refused port or a failed health path is no evidence here.

    Stalled is only what shows nothing at all (log, disk, processor, GPU memory) for the whole window, longer while
    compilers work, or what passed the limit that its own launch states. An engine that was adopted is given the window
    first: a busy one may miss the first look at it.
    """
    if case.window.ready is not None:
        return None
    watched = case.since(case.marks.since)
    if case.age >= case.watch.start_limit.value and watched >= case.watch.start_silence.value:
        limit = say(case.watch.start_limit.value)
        return stuck(case, f"not ready after {say(case.age)}, past the launch's own limit of {limit}")
    still = case.since(case.marks.effort.moved or case.marks.since)
    if still >= allowance(case) and case.last.log_unread is None:  # else it may be writing all the time
        return stuck(case, f"nothing moved for {say(still)} while it {phrase(case)}: no log, disk, processor or cards")
    return starting(case)


def allowance(case: Case) -> float:
    """How long nothing may move; a compiler that is at work may think for longer."""
    recent = case.marks.effort.jit is not None and case.since(case.marks.effort.jit) < case.watch.start_jit.value
    busy = bool(compilers(case.last)) or (recent and phase(case) is Phase.COMPILE)
    return max(case.watch.start_silence.value, case.watch.start_jit.value) if busy else case.watch.start_silence.value


def stuck(case: Case, why: str) -> Verdict:
    cause = root_cause(case.window.failures)
    return Verdict(
        Judged.STALLED,
        why,
        kind=Kind.START,
        remedy=Remedy.RESTART,
        failure=cause.failure if cause else None,
        evidence=(cause.text,) if cause else (),
        phase=name(case),
        progress=ratio(case),
    )


def starting(case: Case) -> Verdict:
    """How far it is; beyond the alert it says that it is slow, and is left alone."""
    expected = case.watch.start_expected
    of = f" of about {say(expected.value)}" if expected.seconds else ""
    slow = case.age >= case.watch.start_alert.value
    cause = root_cause(case.window.failures)
    told = f"; the log says: {WORDS[cause.failure]}" if cause is not None and cause.failure is not None else ""
    percent = f" ({ratio(case):.0%})" if ratio(case) is not None else ""
    remaining = left(case)
    soon = f", about {say(remaining)} left" if remaining and not slow else ""
    why = f"{phrase(case)}{percent}, {say(case.age)}{of}{', slow but it moves' if slow else ''}{soon}{told}"
    if case.last.log_unread is not None:
        why += "; its log cannot be read, so whether it moves is not known"
    return Verdict(
        Judged.STARTING,
        why,
        kind=Kind.START_SLOW if slow else "",
        phase=name(case),
        progress=ratio(case),
        figures={} if remaining is None else {"startup_left_seconds": round(remaining, 1)},
    )


def left(case: Case) -> float | None:
    """Seconds until ready by the longest start on this host: the rest of this step and the steps after it.

    A step that tells its percent is taken at its word; else it takes what it took then. None: no start was seen here.
    """
    learned, now = case.window.learned, phase(case)
    if "start_s" not in learned:
        return None
    took = {step: learned.get(f"phase_s.{step}", 0.0) for step in Phase}
    if not any(took.values()):
        return max(0.0, learned["start_s"] - case.age)
    spent = case.since(case.window.phased[-1] if case.window.phased else case.window.started)
    done = ratio(case) or 0.0
    rest = spent / done * (1 - done) if done >= TOLD else max(0.0, took[now] - spent)
    steps = list(Phase)
    return rest + sum(took[step] for step in steps[steps.index(now) + 1 :])


def phase(case: Case) -> Phase:
    phases = case.window.phases
    return (phases[-1].phase if phases else None) or Phase.BOOT


def name(case: Case) -> str:
    return phase(case).value


def ratio(case: Case) -> float | None:
    return case.window.phases[-1].ratio if case.window.phases else None


def phrase(case: Case) -> str:
    return PHRASES[phase(case)]


def say(seconds: float) -> str:
    return say_duration(timedelta(seconds=seconds))
