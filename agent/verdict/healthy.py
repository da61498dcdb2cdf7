"""Nothing is wrong: busy or ready, in one sentence."""

from __future__ import annotations

from agent.quantity import counted
from agent.verdict.case import Case
from agent.verdict.figures import rate
from agent.verdict.model import Judged, Verdict
from agent.verdict.startup import say


def judge(case: Case) -> Verdict:
    """Never said of what could not be seen: an engine without metrics is busy when clients are connected."""
    if case.blind:
        return blind(case)
    silent = case.silent
    if silent is None:
        return Verdict(Judged.READY, f"ready, nothing runs; last sign of life {say(since_alive(case))} ago")
    _, mark, seconds = silent
    running, waiting = mark.last.running or 0.0, mark.last.waiting or 0.0
    pace = rate(case, "made")
    speed = f", {pace:.1f} tokens/s" if pace is not None else ""
    excuse = ", compilers are at work" if case.compiling else ""
    work = f"{counted(running, 'request runs', 'requests run')}, {counted(waiting, 'waits', 'wait')}"
    told = f"{work}{speed}{excuse}; last progress {say(seconds)} ago"
    return Verdict(Judged.BUSY, told, seconds_since_progress=seconds)


def blind(case: Case) -> Verdict:
    if case.clients:
        clients = counted(case.clients, "client is", "clients are")
        return Verdict(Judged.BUSY, f"{clients} connected; it has no metrics, so this is all that shows")
    unknown = "clients cannot be counted" if case.clients is None else "no client is connected"
    return Verdict(Judged.READY, f"ready; {unknown}, and it has no metrics to tell more")


def since_alive(case: Case) -> float:
    return max(0.0, case.since(case.alive)) if case.alive is not None else 0.0
