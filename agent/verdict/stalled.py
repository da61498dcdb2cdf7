"""Do requests run while nothing moves?"""

from __future__ import annotations

from agent.quantity import counted
from agent.samples.marks import Gauge, RankMark
from agent.verdict import cards, signs
from agent.verdict.case import Case
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Remedy, Verdict
from agent.verdict.signs import second_signs

PING_FRESH_S = 30.0


def judge(case: Case) -> Verdict | None:
    """A rank has work and no part of its progress has changed for the derived window, and a second sign agrees.

    Ranks are judged each alone: a sum hides the one that hangs. The window is the short one where the steps of a
    prefill can be seen, the long one where they cannot; without a claim or a measurement behind it there is none, and
    silence is only told. Compilers excuse silence while they work.
    """
    silent = case.silent
    if silent is None or not case.scraped:
        return None
    name, mark, seconds = silent
    if only_the_canary(case) or seconds < case.watch.suspect.value or case.compiling:
        return None
    window, why = window_of(case, mark)
    found = second_signs(case, case.quiet_since(mark))
    if case.watch.derived and seconds >= window and found:
        return Verdict(
            Judged.STALLED,
            f"{requests(mark)} and nothing moved for {seconds:.0f} s{rank(case, name)}: {found[0]}",
            kind=Kind.BUSY,
            remedy=Remedy.RESTART,
            evidence=(*found, f"window {window:.0f} s: {why}"),
            seconds_since_progress=seconds,
        )
    return suspect(case, name, mark, seconds, window)


def only_the_canary(case: Case) -> bool:
    """What runs is the agent's own request. One that was asked while others ran is not counted by a core that hangs,
    so it is not taken off then: what runs are still the others."""
    canaries = case.marks.canaries
    return case.work == 0 and not canaries.strikes and (canaries.out is None or canaries.asked_idle)


def suspect(case: Case, name: str, mark: RankMark, seconds: float, window: float) -> Verdict:
    """Told, and looked at more closely: a canary where no loop ping answers, or once the window has passed. Of several
    ranks the silent one is asked: another's token says nothing about it."""
    answers = case.marks.answers
    answered = answers.ping_ok is not None and case.now - answers.ping_ok <= PING_FRESH_S
    asks = case.may_ask and not signs.canary(case, case.quiet_since(mark)) and (not answered or seconds >= window)
    told = f"{requests(mark)} and nothing moved for {seconds:.0f} s{rank(case, name)}"
    wait = f"; looks on until {window:.0f} s" if seconds < window < float("inf") else "; no second sign"
    return Verdict(
        Judged.SUSPECT,
        told + (wait if case.watch.derived else "; no window could be derived, so nothing is done about silence"),
        kind=Kind.BUSY,
        evidence=second_signs(case, case.quiet_since(mark)),
        seconds_since_progress=seconds,
        wants_canary=asks,
        canary_rank=name if len(case.marks.ranks) > 1 else "",
    )


def window_of(case: Case, mark: RankMark) -> tuple[float, str]:
    """How long this rank may be silent, and why so long."""
    base, why = base_window(case, mark)
    if case.since(case.window.ready) < case.watch.jit_after_ready.value:
        return base + case.watch.jit.value, f"{why}, and it has not been ready for long"
    return base, why


def base_window(case: Case, mark: RankMark) -> tuple[float, str]:
    """By what is known of this engine's signals.

    Where it is not known yet whether the KV gauge shows a prefill's steps, the longest prefill is waited for; while
    the cards are seen to work, as long as where it surely does not.
    """
    stall, blind = case.watch.stall, case.watch.stall_blind
    if case.engine is not None and not case.engine.chunked:
        return max(stall.value, blind.value), "the launch has a prompt's prefill done in one step"
    if mark.steps_visible is Gauge.SHOWN:
        return stall.value, "its steps can be seen"
    if mark.steps_visible is Gauge.REFUTED or not mark.last.kv_usage or cards.working(case):
        return blind.value, "the steps of a prefill cannot be seen"
    if blind.seconds is None:
        return stall.value, "whether its steps can be seen is not known yet"
    return max(stall.value, (blind.value - 60.0) / 3), "whether its steps can be seen is not known yet"


def requests(mark: RankMark) -> str:
    running, waiting = mark.last.running or 0.0, mark.last.waiting or 0.0
    if not running and not waiting:
        return "work is held in the cache"
    return f"{counted(running, 'request runs', 'requests run')}, {counted(waiting, 'waits', 'wait')}"


def rank(case: Case, name: str) -> str:
    return f" on rank {name}" if len(case.marks.ranks) > 1 else ""
