"""Second signs: what, beside silence, says that an engine hangs. Nothing is ever done on silence alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.clock import Instant
from agent.engines.model import number_of
from agent.samples.model import Activity
from agent.verdict import cards
from agent.verdict.case import Case
from agent.verdict.failure import WORDS
from agent.verdict.xid import RESTART_APP

PING_MISSES = 2
STUCK_S = 10.0


def second_signs(case: Case, since: Instant) -> tuple[str, ...]:
    """All that hold, each a sentence for the evidence. `since`: when the silence began."""
    found = (
        canary(case, since),
        ping(case, since),
        heartbeat(case),
        processes(case),
        spin(case),
        blocked(case),
        line(case, since),
        failure(case, since),
        xid(case, since),
    )
    return tuple(sign for sign in found if sign)


def canary(case: Case, since: Instant) -> str:
    canaries = case.marks.canaries
    if not case.struck_since(since) or of_another(case):
        return ""
    return f"a canary got no token in {canaries.struck_after:.0f} s ({canaries.struck_why})"


def of_another(case: Case) -> bool:
    """It was asked of another rank than the silent one."""
    canaries, silent = case.marks.canaries, case.silent
    return bool(canaries.aims and canaries.rank and silent and number_of(silent[0]) not in ("", canaries.rank))


def ping(case: Case, since: Instant) -> str:
    """The loop was asked twice at least since, and never answered."""
    answers = case.marks.answers
    lost = answers.ping_lost
    if lost is None or answers.ping_misses < PING_MISSES or case.now - lost < case.watch.period.value:
        return ""
    if answers.ping_ok is not None and answers.ping_ok.mono > since.mono and case.now - lost < case.watch.suspect.value:
        return ""
    return f"the scheduler has not answered {answers.ping_misses} pings for {case.now - lost:.0f} s"


def heartbeat(case: Case) -> str:
    age = case.marks.answers.heartbeat
    if age is None or age < case.watch.suspect.value:
        return ""
    return f"the scheduler's last heartbeat is {age:.0f} s old"


def processes(case: Case) -> str:
    """Stopped, or stuck in the kernel."""
    return stopped(case) or stuck(case)


def stopped(case: Case) -> str:
    """By a signal; it goes on when somebody says so, and not before."""
    pids = throughout(case, lambda activity: activity.stopped)
    return f"process {min(pids)} is stopped (state T)" if pids else ""


def stuck(case: Case) -> str:
    pids = throughout(case, lambda activity: activity.uninterruptible)
    return f"process {min(pids)} is stuck in the kernel (state D)" if pids else ""


def throughout(case: Case, pids: Callable[[Activity], Sequence[int]]) -> set[int]:
    """Those in every sample of the last ten seconds, two at least: the one before a pause in the looking counts too."""
    tail = case.window.tail(max(STUCK_S, 2 * case.watch.period.value), least=2)
    seen = [set(pids(sample.activity)) for sample in tail if isinstance(sample.activity, Activity)]
    return set.intersection(*seen) if len(seen) >= 2 else set()


def spin(case: Case) -> str:
    return "the cards are fully busy at idle power: a kernel spins" if cards.spinning(case) else ""


def blocked(case: Case) -> str:
    """Tokens that are held alone want no work done: a session keeps them between two of its requests."""
    counted = [mark.last.counted for mark in case.marks.ranks.values()]
    if not case.blind and not any(counted):
        return ""
    if cards.still(case) and cards.quiet(case):
        return "cards and processor are at rest while requests run"
    return ""


def line(case: Case, since: Instant) -> str:
    """A line that a waiting engine writes; it also comes in long compilations, which are excused elsewhere."""
    hang = case.marks.effort.hang
    return "the log says that processes wait for each other" if hang is not None and hang.mono > since.mono else ""


def failure(case: Case, since: Instant) -> str:
    """A failure line since the silence began, or just before it."""
    for at, event in zip(case.marks.failed, case.window.failures, strict=False):
        if event.failure is not None and at.mono >= since.mono:
            return f"the log says: {WORDS[event.failure]} ({event.text})"
    return ""


def xid(case: Case, since: Instant) -> str:
    for seen in case.marks.xids:
        if seen.number in RESTART_APP and seen.at.mono >= since.mono:
            return f"the driver reported Xid {seen.number} on {seen.uuid}"
    return ""
