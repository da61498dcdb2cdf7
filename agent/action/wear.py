"""Restarts that can wait: an engine that works and has become worse is restarted in a maintenance window (pure).

Only what a new start may mend counts, and only while the engine serves: what is stalled, dead, gone or held by zombies
that nobody waits for is a fault, and faults never wait (`agent.action.decide.act`). What a restart does not mend is
told and left alone: a request that is never admitted, a stale gauge (one canary's step mends it), a throttled card, a
link with fewer lanes, a stranger's load, a start that takes long. Without windows nothing is restarted for this at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agent.action.budget import Budget
from agent.action.leak import leak
from agent.action.model import Nothing, SaveEvidence, Step, Stop
from agent.action.record import Deployment, Reason, Supervision, Wearing
from agent.action.seen import Seen, Worn
from agent.verdict.model import Judged

SERVES = frozenset({Judged.READY, Judged.BUSY, Judged.SUSPECT})


def wearing(record: Deployment, found: Sequence[Worn], mono: float) -> Wearing | None:
    """What it suffers from, since when: the first of what is found, and no longer when nothing is."""
    if not found:
        return None
    before, first = record.wearing, found[0]
    if before is not None and before.kind == first.kind:
        return before
    return Wearing(first.kind, first.why, mono)


def due(record: Deployment, seen: Seen) -> Wearing | None:
    """What a restart is wanted for, once it has lasted; None where the site wants none for it."""
    worn, upkeep = record.wearing, seen.upkeep
    if worn is None or not upkeep.windows or worn.kind not in upkeep.restart_for:
        return None
    return worn if seen.now.mono - worn.since >= upkeep.settled_s else None


def waits(record: Deployment, seen: Seen) -> str:
    """Whose restart waits for a window to open: `plan`, `person`, `slow`, `memory`; empty for none."""
    if not seen.window or record.started_at is None:
        return ""
    if record.at_window and record.next_plan not in (None, record.plan_id):
        return "plan"
    if record.restart_at_window:
        return "person"
    worn = due(record, seen)
    return worn.kind if worn is not None else ""


def later(record: Deployment, seen: Seen, step: Nothing) -> Step:
    """Instead of merely looking on at an engine that serves: wait for the window, or restart in it, evidence first."""
    worn = due(record, seen)
    if worn is None or seen.verdict is None or seen.verdict.state not in SERVES:
        return step
    if seen.window:
        return Nothing(f"{step.why}; {worn.why}, so a restart waits: {seen.window}")
    if why := obstacle(record, seen):
        return Nothing(f"{step.why}; {worn.why}; no restart for it: {why}")
    if record.supervision is Supervision.OBSERVE:
        return Nothing(f"{step.why}; observes only, would restart in this maintenance window: {worn.why}")
    if not worn.kept:
        return SaveEvidence(worn.kind, brief=False, why=f"keeps the evidence: {worn.why}")
    return Stop(Reason.WINDOW, f"restarts in the maintenance window: {worn.why}")


def obstacle(record: Deployment, seen: Seen) -> str:
    """Why an engine that serves is rather left as it is, though a window is open."""
    return next((why for look in OBSTACLES if (why := look(record, seen))), "")


def used(record: Deployment, seen: Seen) -> str:
    """What comes back at once is not mended by restarting."""
    once = record.window_used is not None and record.window_used == seen.upkeep.opened
    return "it was restarted in this maintenance window already, and that did not mend it" if once else ""


def losing(record: Deployment, _seen: Seen) -> str:
    return leak(record.starts) or ""


def unsure(record: Deployment, seen: Seen) -> str:
    """A start that fails must have something left to be tried with."""
    budget = Budget(spent=len(record.restarts), allowed=seen.watch.budget, backoff=seen.watch.backoff)
    return "" if budget.left else "no restart is left should the new start fail"


def host(_record: Deployment, seen: Seen) -> str:
    if seen.broken:
        return seen.broken
    return "this host's deployments were restarted too often" if seen.host_wait > 0 else ""


OBSTACLES: tuple[Callable[[Deployment, Seen], str], ...] = (used, host, losing, unsure)


def observed(record: Deployment, seen: Seen) -> Deployment:
    """`observe` counts what would have been done, once a window."""
    worn = due(record, seen)
    if record.supervision is not Supervision.OBSERVE or worn is None or seen.window or obstacle(record, seen):
        return record
    return replace(record.counted(f"would.{worn.kind}"), window_used=seen.upkeep.opened)
