"""Does a start-up move? It is judged by movement alone, never by the wall clock."""

from __future__ import annotations

from datetime import timedelta

from agent.engines.model import Phase
from agent.quantity import say_duration
from agent.samples.fold import compilers
from agent.samples.model import Activity, Miss, Missed
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
    first: a busy one may miss the first look at it. What cannot be looked at is not known to stand still.
    """
    if case.window.ready is not None:
        return None
    watched = case.since(case.marks.since)
    if case.age >= case.watch.start_limit.value and watched >= case.watch.start_silence.value:
        limit = say(case.watch.start_limit.value)
        return stuck(case, f"not ready after {say(case.age)}, past the launch's own limit of {limit}")
    still = case.since(case.marks.effort.moved or case.marks.since)
    if still >= allowance(case) and not unseen(case):
        return stuck(case, f"nothing moved for {say(still)} while it {phrase(case)}: no {looked_at(case)}")
    return starting(case)


def unseen(case: Case) -> tuple[str, ...]:
    """What may move all the time for all that is known.

    What is read from a disk is told to those alone who may look into its processes. Everybody can see that one of them
    waits in the kernel (state D): without that, nobody waits for a disk.
    """
    activity, waited = case.last.activity, case.marks.effort.waited
    log = () if case.last.log_unread is None else ("log",)
    if not isinstance(activity, Activity):
        return (*log, "disk and processor")
    waits = waited is not None and case.since(waited) < case.watch.start_silence.value
    return (*log, *(("disk",) if activity.io_bytes is None and waits else ()))


def looked_at(case: Case) -> str:
    """Cards that cannot be read leave no doubt: a processor at work fills their memory."""
    gpus = case.last.gpus
    unread = isinstance(gpus, Missed) and gpus.kind is not Miss.UNSUPPORTED
    return "log, disk or processor (its cards cannot be read)" if unread else "log, disk, processor or cards"


def lonely(case: Case) -> str:
    """What alone has moved for so long that all else would be said to stand still; empty for a start that works.

    A log that tells of one try after the other, and a processor that waits in a loop, look so, and so does a helper
    that computes for long: it is told, and nothing is done about it. A log that tells of a higher percent is believed.
    """
    effort, silence = case.marks.effort, case.watch.start_silence.value
    wrote, worked, stored = (
        case.since(instant or case.marks.since) for instant in (effort.wrote, effort.worked, effort.stored)
    )
    advances = effort.advanced is not None and case.since(effort.advanced) < silence
    if advances or unseen(case) or min(wrote, worked) >= silence or compilers(case.last):
        return ""
    if worked >= silence:
        return f"only its log moves, for {say(worked)}"
    return f"only its processor works, for {say(min(wrote, stored))}" if min(wrote, stored) >= silence else ""


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
    late, alone = case.age >= case.watch.start_alert.value, lonely(case)
    cause = root_cause(case.window.failures)
    told = f"; the log says: {WORDS[cause.failure]}" if cause is not None and cause.failure is not None else ""
    percent = f" ({ratio(case):.0%})" if ratio(case) is not None else ""
    remaining = left(case)
    soon = f", about {say(remaining)} left" if remaining and not late and not alone else ""
    slow = f", slow, and {alone}" if alone else ", slow but it moves" if late else ""
    why = f"{phrase(case)}{percent}, {say(case.age)}{of}{slow}{soon}{told}{unknown(case)}"
    return Verdict(
        Judged.STARTING,
        why,
        kind=Kind.START_SLOW if slow else "",
        phase=name(case),
        progress=ratio(case),
        figures={} if remaining is None else {"startup_left_seconds": round(remaining, 1)},
    )


def unknown(case: Case) -> str:
    """What would be needed to know whether it moves: the log always, the rest when all else stands still."""
    names = unseen(case)
    still = case.since(case.marks.effort.moved or case.marks.since) >= allowance(case)
    if not names or (case.last.log_unread is None and not still):
        return "; whether it gets on is not known" if lonely(case) else ""
    return f"; its {' and '.join(names)} cannot be read, so whether it moves is not known"


def left(case: Case) -> float | None:
    """Seconds until ready by the longest start on this host: the rest of this step and the steps after it.

    A step that tells its percent is taken at its word, until it is all done and goes on; else it takes what it took
    then. None: no start was seen here.
    """
    learned, now = case.window.learned, phase(case)
    if "start_s" not in learned:
        return None
    took = {step: learned.get(f"phase_s.{step}", 0.0) for step in Phase}
    if not any(took.values()):
        return max(0.0, learned["start_s"] - case.age)
    spent = case.since(case.window.phased[-1] if case.window.phased else case.window.started)
    done = ratio(case) or 0.0
    rest = spent / done * (1 - done) if TOLD <= done < 1 else max(0.0, took[now] - spent)
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
