"""Would an engine with nothing to do still give a token?"""

from __future__ import annotations

from agent.quantity import counted
from agent.verdict.case import Case
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Remedy, Verdict
from agent.verdict.ranks import answers_in, resting, tells, whom

STRIKES = 2


def judge(case: Case) -> Verdict | None:
    """A core that hung while idle looks exactly like a healthy idle one: gauges at 0, health 200. One token tells.

    Two canaries in a row without a token, asked while nothing ran, are a hang; progress of any kind between them
    clears the first. Clients that are connected to an engine with nothing to do are either a pool or wait for a core
    that does not take their requests: then the canary is asked earlier.

    The canary may be the first request of its shape, for which kernels are compiled, or the one that brings an unloaded
    model back to the cards: strikes do not count so long as compilers are at work or weights on their way.
    """
    alive, canaries = case.alive, case.marks.canaries
    if not idle(case) or alive is None or case.compiling:
        return None
    if tells(case):  # each of its ranks is asked for itself
        return None
    if canaries.strikes and canaries.asked_idle and case.struck_since(alive):
        return struck(case)
    if case.may_ask and case.now - alive >= ask_after(case):
        return Verdict(
            Judged.READY,
            f"idle; asks for one token, since nothing has shown for {case.now - alive:.0f} s that it lives",
            wants_canary=True,
            canary_timeout_s=answers_in(case),
            canary_rank=whom(case),
        )
    return None


def idle(case: Case) -> bool:
    """Nothing runs by the engine's own word or, without one, nobody is connected."""
    if case.blind:
        return case.clients == 0
    if case.work is None:
        return resting(tuple(case.marks.ranks.values()))
    return case.work == 0 or (case.marks.canaries.asked_idle and bool(case.marks.canaries.strikes))


def struck(case: Case) -> Verdict:
    canaries = case.marks.canaries
    waiting = f" while {counted(case.clients, 'client is', 'clients are')} connected" if case.clients else ""
    if canaries.strikes < STRIKES:
        return Verdict(
            Judged.SUSPECT,
            f"an idle engine gave no token in {canaries.struck_after:.0f} s{waiting}; asks once more",
            kind=Kind.IDLE,
            wants_canary=case.may_ask,
            canary_rank=whom(case),
            canary_timeout_s=answers_in(case),
            evidence=(canaries.struck_why,),
        )
    return Verdict(
        Judged.STALLED,
        f"nothing runs, and {canaries.strikes} canaries in a row got no token{waiting}",
        kind=Kind.IDLE,
        remedy=Remedy.RESTART,
        evidence=(canaries.struck_why,),
    )


def ask_after(case: Case) -> float:
    """Seconds without a sign of life before a canary.

    Where it is not known yet whether a data-parallel rank answers to its number, a short time is used to see it, for an
    engine may never again have nothing to do; and those that are still wanted for it follow at the next look that sees
    all at rest, for a rank's gauges may be written after its answer. Not just after a start, when kernels are still
    compiled.
    """
    patience = case.watch.canary_idle.value
    if whom(case) and not case.marks.canaries.untold:
        short = case.since(case.window.ready) >= patience
        settled = case.watch.period.value / 2
        patience = (
            settled if case.marks.canaries.own else min(patience, case.watch.suspect.value) if short else patience
        )
    if case.clients and not case.marks.clients.pooled:
        return min(patience, max(case.watch.suspect.value, case.watch.stall.value))
    return patience
