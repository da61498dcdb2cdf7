"""What can be said of an engine whose metrics do not answer?"""

from __future__ import annotations

from agent.quantity import counted
from agent.samples.model import Activity, Health, Missed
from agent.verdict import cards, signs
from agent.verdict.case import Case
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Remedy, Verdict


def judge(case: Case) -> Verdict | None:
    """A failed scrape is never idle, never healthy, and by itself never dead.

    A port that was open and refuses for half a minute while the container runs is dead. Time-outs may be a busy
    engine: dead only when the health path fails too, for as long as a dozen scrapes, and neither log nor processor nor
    cards do anything, all of it known; or for the long window, when the processor alone is busy and a canary failed.
    Where the metrics are answered by the scheduler's own loop, its silence under work counts as any other silence does.
    """
    refused = refusing(case)
    if refused is not None:
        return refused
    since = case.marks.answers.failing
    if since is None or case.scraped or case.blind:
        return None
    return loop_silent(case) or unresponsive(case) or spinning(case) or cannot_look(case)


def refusing(case: Case) -> Verdict | None:
    since = case.marks.answers.refused
    if since is None:
        return None
    seconds = case.now - since
    if seconds < case.watch.refused.value:
        return cannot_look(case)
    return Verdict(
        Judged.DEAD,
        f"its port has refused connections for {seconds:.0f} s though it runs and was ready",
        kind=Kind.REFUSED,
        remedy=Remedy.RESTART,
    )


def loop_silent(case: Case) -> Verdict | None:
    """Metrics from the scheduler's loop time out while the HTTP side is up."""
    if not case.traits.scrape_is_ping or case.compiling or not http_up(case):
        return None
    silent = case.silent
    if silent is None:
        return idle_loop_silent(case)
    _, mark, seconds = silent
    found = signs.second_signs(case, case.quiet_since(mark))
    if not case.watch.derived or seconds < case.watch.stall.value or not found:
        return None
    return Verdict(
        Judged.STALLED,
        f"its scheduler has not answered for {seconds:.0f} s with {counted(mark.last.work or 0.0, 'request')} running",
        kind=Kind.BUSY,
        remedy=Remedy.RESTART,
        evidence=found,
    )


def idle_loop_silent(case: Case) -> Verdict | None:
    """Nothing ran when the loop was last heard, so its silence is no request's: only a canary can tell a hang from
    looks that went astray. Whoever connected since waits in vain, and no gauge shows it."""
    since = case.marks.answers.failing
    if since is None:
        return None
    seconds = case.now - since
    struck = signs.canary(case, since)
    if not struck or not case.watch.derived or seconds < case.watch.stall.value:
        return None
    return Verdict(
        Judged.STALLED,
        f"its scheduler has not answered for {seconds:.0f} s: {struck}",
        kind=Kind.IDLE,
        remedy=Remedy.RESTART,
        evidence=tuple(sign for sign in (struck, signs.ping(case, since)) if sign),
    )


def http_up(case: Case) -> bool:
    return isinstance(case.last.health, Health)


def unresponsive(case: Case) -> Verdict | None:
    """Nothing of it answers and nothing of it moves, or one of its processes is stopped: the rest may work on then,
    for a server that hands nothing out."""
    since = case.marks.answers.failing
    lost = case.marks.answers.health_lost
    if since is None or lost is None or case.now - since < case.watch.unobservable.value:
        return None
    stopped = signs.stopped(case)
    if case.now - lost < case.watch.unobservable.value - case.watch.period.value or not (stopped or at_rest(case)):
        return None
    evidence = (*(sign for sign in (signs.processes(case), signs.canary(case, since)) if sign),)
    return Verdict(
        Judged.DEAD,
        f"nothing of it has answered for {case.now - since:.0f} s, and "
        + (stopped or "log, processor and cards are at rest"),
        kind=Kind.UNRESPONSIVE,
        remedy=Remedy.RESTART,
        evidence=evidence,
    )


def spinning(case: Case) -> Verdict | None:
    """Nothing of it answers and its processor is busy, while its cards are known to do nothing.

    Threads that wait for a lost peer spin (NCCL's proxies do); so does a server that tokenizes a huge prompt. The
    longest prefill and its margin are waited for, and a canary must have failed since.
    """
    since, lost = case.marks.answers.failing, case.marks.answers.health_lost
    if since is None or lost is None or case.compiling or cards.working(case):
        return None
    canary = signs.canary(case, since)
    seconds = case.now - max(since, lost, key=lambda instant: instant.mono)
    idle = cards.still(case) or cards.spinning(case)
    if not case.watch.derived or seconds < case.watch.stall_blind.value or not canary or not idle:
        return None
    return Verdict(
        Judged.DEAD,
        f"nothing of it has answered for {seconds:.0f} s, and its cards do nothing",
        kind=Kind.UNRESPONSIVE,
        remedy=Remedy.RESTART,
        evidence=(canary, signs.spin(case) or "the cards are at rest"),
    )


def at_rest(case: Case) -> bool:
    """No line of log for a minute, no processor time, no card at work: all known."""
    wrote = case.marks.effort.wrote
    told = case.last.log_unread is None  # a log that cannot be read is not a silent one
    silent = told and (wrote is None or case.now - wrote >= case.watch.suspect.value)
    looked = isinstance(case.last.activity, Activity)
    return silent and looked and cards.quiet(case) and not cards.working(case) and not case.compiling


def cannot_look(case: Case) -> Verdict:
    scrape = case.last.scrape
    health = case.last.health
    why = scrape.why if isinstance(scrape, Missed) else "its port refuses connections"
    if case.blind:
        why = health.why if isinstance(health, Missed) else "its port refuses connections"
    scraped = case.marks.answers.scraped
    last = f"; last seen {case.now - scraped:.0f} s ago" if scraped is not None else ""
    failing = case.since(case.marks.answers.failing)
    return Verdict(
        Judged.UNOBSERVABLE,
        f"cannot look: {why}{last}",
        wants_canary=case.may_ask and failing >= case.watch.suspect.value,
        blind=("metrics",),
    )
