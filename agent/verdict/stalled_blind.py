"""An engine without metrics: are clients connected while nothing shows that it lives?"""

from __future__ import annotations

from agent.quantity import counted
from agent.verdict import cards, signs
from agent.verdict.case import Case
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Remedy, Verdict

MARGIN_PERIODS = 3.0


def judge(case: Case) -> Verdict | None:
    """Absence proves nothing here. Clients wait, no line and no canary's token for the long window, and a canary fails.

    The canary is asked so late that its own time-out ends with the window: before, a long answer is the likelier
    reason. While the cards are seen to work, a canary that waits in a full batch proves nothing either.
    """
    alive = case.alive
    if not case.blind or case.clients == 0 or alive is None or case.compiling:
        return None
    seconds = case.now - alive
    found = second_signs(case)
    if case.watch.derived and seconds >= case.watch.stall_blind.value and found and not cards.working(case):
        return Verdict(
            Judged.STALLED,
            f"{who(case)} and nothing has shown for {seconds:.0f} s that it lives: {found[0]}",
            kind=Kind.BUSY,
            remedy=Remedy.RESTART,
            evidence=found,
            seconds_since_progress=seconds,
            blind=("metrics",),
        )
    return suspect(case, seconds, found)


def second_signs(case: Case) -> tuple[str, ...]:
    alive = case.alive
    return signs.second_signs(case, alive) if alive is not None else ()


def suspect(case: Case, seconds: float, found: tuple[str, ...]) -> Verdict | None:
    """Once it is time for a canary, or one has failed."""
    asks = case.may_ask and seconds >= ask_after(case)
    if not asks and not case.marks.canaries.strikes:
        return None
    return Verdict(
        Judged.SUSPECT if case.marks.canaries.strikes else Judged.BUSY,
        f"{who(case)}; no sign of life for {seconds:.0f} s (it has no metrics)",
        kind=Kind.BUSY if case.marks.canaries.strikes else "",
        evidence=found,
        wants_canary=asks,
        seconds_since_progress=seconds,
        blind=("metrics",),
    )


def ask_after(case: Case) -> float:
    """Seconds of silence before a canary: its answer, or its time-out, is there when the window ends."""
    idle = case.watch.canary_idle.value
    if case.watch.stall_blind.seconds is None:
        return idle
    spare = case.watch.canary_timeout.value + MARGIN_PERIODS * case.watch.period.value
    return max(case.watch.suspect.value, case.watch.stall_blind.value - spare)


def who(case: Case) -> str:
    if case.clients is None:
        return "clients cannot be counted"
    return f"{counted(case.clients, 'client is', 'clients are')} connected"
