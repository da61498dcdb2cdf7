"""A start that serves and has not shown yet what its profile wants is still a start (pure)."""

from __future__ import annotations

from dataclasses import replace

from agent.plan.model import Acceptance
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Remedy, Verdict

SERVES = frozenset({Judged.READY, Judged.BUSY, Judged.SUSPECT})


def wants(acceptance: Acceptance) -> bool:
    """Whether there is anything to see."""
    return bool(acceptance.stream_tokens or acceptance.log_lines or acceptance.counters)


def hold_back(verdict: Verdict, shown: tuple[bool, str] | None, unread: str = "") -> Verdict:
    """`verdict` of an engine whose acceptance is open: `shown` is its outcome, None while it is being tried.

    `unread`: why its log cannot be read though lines of it are wanted; then it is not tried.

    One that does not show what is wanted is given up: the same launch would show the same again.
    """
    if verdict.state not in SERVES:
        return verdict
    if shown is None:
        tried = f"cannot be tried, since its log cannot be read: {unread}" if unread else "is tried"
        why = f"serves, and {tried}: {verdict.why}"
        return replace(verdict, state=Judged.STARTING, kind="", phase="acceptance", why=why)
    ok, why = shown
    if ok:
        return verdict
    return replace(
        verdict,
        state=Judged.DEAD,
        kind=Kind.UNACCEPTED,
        remedy=Remedy.GIVE_UP,
        why=f"it serves and does not work as its profile wants: {why}",
        evidence=(why,),
    )
