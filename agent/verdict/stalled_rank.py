"""Would a data-parallel rank with nothing to do still give a token, while the others work?

Every rank has a core of its own. One that hung while idle shows no request, not even one that was given to it since:
its gauges stand where it left them, at 0. The front end goes on giving it its share of the requests, and the others'
tokens say nothing about it. So each rank is asked by its number once it has been quiet for long, where it was seen
that this engine gives the question to the rank that is named.
"""

from __future__ import annotations

from dataclasses import replace

from agent.samples.canaries import named
from agent.verdict import healthy
from agent.verdict.case import Case
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Remedy, Verdict
from agent.verdict.ranks import answers_in, quiet_since, quietest, resting, shown, tells
from agent.verdict.stalled_idle import STRIKES


def judge(case: Case) -> Verdict | None:
    """The rank that was asked last has nothing to do, and has not moved since it was asked.

    A compiler or weights on their way excuse it, as they excuse an idle engine.
    """
    canaries = case.marks.canaries
    marks = named(shown(case), canaries.rank)
    if not tells(case) or not canaries.strikes or case.compiling or not resting(marks):
        return None
    if not case.struck_since(quiet_since(case, marks)):
        return None
    others = "the others work" if case.work else "the others have nothing to do either"
    if canaries.strikes < STRIKES:
        return Verdict(
            Judged.SUSPECT,
            f"rank {canaries.rank} shows no request and gave no token in {canaries.struck_after:.0f} s, "
            f"while {others}; asks it once more",
            kind=Kind.IDLE,
            wants_canary=case.may_ask,
            canary_timeout_s=answers_in(case),
            canary_rank=canaries.rank,
            evidence=(canaries.struck_why,),
        )
    return Verdict(
        Judged.STALLED,
        f"rank {canaries.rank} shows no request, and {canaries.strikes} canaries in a row got no token of it, "
        f"while {others}",
        kind=Kind.IDLE,
        remedy=Remedy.RESTART,
        evidence=(canaries.struck_why,),
    )


def ask(case: Case) -> Verdict | None:
    """Nothing else is to be said, and a rank with nothing to do has been quiet for long: it is asked for one token."""
    if not tells(case) or not case.may_ask or case.compiling or case.marks.canaries.untold:
        return None
    number, since = quietest(case)
    quiet = case.now - since
    if not number or quiet < patience(case):
        return None
    found = healthy.judge(case)
    return replace(
        found,
        why=f"{found.why}; asks rank {number} for one token, since nothing of it has shown for {quiet:.0f} s",
        wants_canary=True,
        canary_timeout_s=answers_in(case),
        canary_rank=number,
    )


def patience(case: Case) -> float:
    """Seconds of quiet before it is asked: fewer where more clients are connected than requests are known of, since
    some of them may wait for this rank."""
    calm = case.watch.canary_idle.value
    if case.clients is None or case.work is None or case.marks.clients.pooled or case.clients <= case.work:
        return calm
    return min(calm, max(case.watch.suspect.value, case.watch.stall.value))
