"""How the record changes: by what was seen, by what is about to be done, by what was done (pure).

`look` runs before the decision, `intend` between the decision and its effect (what it returns is stored first, so
that a kill in between goes on instead of starting over), `finish` after the effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent.action.budget import Budget
from agent.action.model import (
    Abort,
    BringBack,
    Create,
    EndOrphans,
    Preflight,
    PrepareImage,
    Released,
    Remove,
    RollBack,
    SaveEvidence,
    Settle,
    Signal,
    Start,
    Step,
    Stop,
    Stuck,
    Sweep,
    Wait,
)
from agent.action.record import RESTING, Deployment, Desired, Fault, Held, Reason, State, Supervision, Takedown
from agent.action.seen import Seen
from agent.action.wear import observed, waits, wearing
from agent.engines.model import FailureClass
from agent.preflight.model import Finding
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Verdict

SERVING = frozenset({Judged.READY, Judged.BUSY})
UNSURE = frozenset({Judged.SUSPECT, Judged.UNOBSERVABLE})
"""What ends no fault: its evidence is on file, and a look that could not be sure must not have it gathered again."""
KEPT_STARTS = 8
KEPT_SHARED = 256
KEPT_PLANS = 20
LOOK_AGAIN_S = 60.0
"""After a refusal of a start that nobody waits for."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step's effect gave. `refused` is the sentence of a preflight or an image that said no."""

    container: str | None = None
    incident: str | None = None
    refused: str | None = None
    error: Mapping[str, Any] | None = None
    """The refusal as the API's error object."""
    findings: tuple[Finding, ...] = ()
    note: str = ""
    """What did not go as it should and does not stop the step."""
    aborted: str = ""
    held: Held = field(default_factory=Held)
    """What was in use before the container was created."""


def look(record: Deployment, seen: Seen, elapsed: float) -> Deployment:
    """Take the verdict into the record. `elapsed` is seconds since the last look, for the proof of health."""
    verdict = seen.verdict
    if seen.unreachable is not None:
        if record.takedown is not None:
            since = record.takedown.unseen_at if record.takedown.unseen_at is not None else seen.now.mono
            return replace(record, takedown=replace(record.takedown, unseen_at=since))
        if record.state in RESTING:
            return record
        return record.at(State.UNOBSERVABLE, f"cannot look: {seen.unreachable}", seen.now.wall)
    if seen.shared:
        record = replace(record, shared=tuple(dict.fromkeys((*record.shared, *seen.shared)))[-KEPT_SHARED:])
    if record.takedown is not None:
        return look_down(record, record.takedown, seen)
    if verdict is None or record.started_at is None:
        return record
    if record.state in (State.FAILED, State.QUARANTINED) and verdict.state not in SERVING:
        return record
    if verdict.state is Judged.STOPPED:
        return record
    if seen.proved:
        record = replace(record, proved=record.generation)
    record = count_faults(record, verdict)
    if verdict.state in SERVING or moves(verdict, seen):
        record = observed(replace(record, wearing=wearing(record, seen.worn, seen.now.mono)), seen)
    record = replace(record, restart_waits=waits(record, seen))
    why = f"{verdict.why}; beware: {seen.broken}" if seen.broken and not verdict.fault else verdict.why
    record = record.at(State(verdict.state.value), why, seen.now.wall)
    if verdict.state in SERVING or moves(verdict, seen):
        return prove_health(record, seen, elapsed)
    if verdict.fault or verdict.state in UNSURE:
        return record
    return replace(record, fault=None, would=None)


def look_down(record: Deployment, down: Takedown, seen: Seen) -> Deployment:
    """A person's stop begins without a look: its clock starts here, and what runs is noted before anything is sent."""
    if down.begun is None:
        down = replace(down, begun=seen.now.mono)
    gone = seen.container is None and not seen.leftovers
    if down.stuck and (gone or down.unseen_at is not None):
        why = "the container is gone" if gone else "the container can be looked at again"
        record = record.at(State.RELEASING if gone else State.STOPPING, f"{why}: goes on", seen.now.wall)
        down = replace(down, stuck=False)
    if down.unseen_at is not None:
        # what was sent and never seen to arrive is sent again, with its whole time to take effect
        down = replace(down, unseen_at=None, kill_at=None, remove_at=None, asked_at=None, orphans_ended_at=None)
        down = replace(down, unsent="")
    if gone and down.removed_at is None:
        down = replace(down, removed_at=seen.now.mono)
    if down.container is None and record.container is not None:
        down = replace(down, members=seen.members, container=record.container)
    return replace(record, takedown=down)


def moves(verdict: Verdict, seen: Seen) -> bool:
    """Suspected of something that does not stop it (more requests than clients): it serves all the same."""
    still = verdict.seconds_since_progress
    return verdict.state is Judged.SUSPECT and still is not None and still < seen.watch.suspect.value


def count_faults(record: Deployment, verdict: Verdict) -> Deployment:
    """Counters of what the verdict newly says."""
    if verdict.state is Judged.SUSPECT and record.state is not State.SUSPECT:
        return record.counted(f"suspects.{verdict.kind}")
    fresh = verdict.fault and (record.fault is None or record.fault.kind != verdict.kind)
    if not fresh:
        return record
    stalled = record.state.value != verdict.state.value and verdict.state in (Judged.STALLED, Judged.ZOMBIE)
    if stalled:
        record = record.counted(f"stalls.{verdict.kind}")
    if record.supervision is Supervision.OBSERVE and record.would != verdict.kind:
        return replace(record.counted(f"would.{verdict.kind}"), would=verdict.kind)
    return record


def also(served: tuple[str, ...], plan_id: str) -> tuple[str, ...]:
    """With this plan as the latest; the oldest are forgotten."""
    if served[-1:] == (plan_id,):
        return served
    return (*(one for one in served if one != plan_id), plan_id)[-KEPT_PLANS:]


def prove_health(record: Deployment, seen: Seen, elapsed: float) -> Deployment:
    """Ready: faults are over, and long enough of it gives the budget back."""
    healthy = record.healthy_s + elapsed
    record = replace(
        record,
        ready_at=record.ready_at or seen.now.wall,
        fault=None,
        would=None,
        start_stalls=0,
        last_good=record.plan_id,
        served=also(record.served, record.plan_id),
        returning=None,
        replaces=None,
    )
    if healthy >= seen.watch.healthy.value and record.restarts:
        return replace(record, healthy_s=healthy, restarts=(), port_failures=0)
    return replace(record, healthy_s=healthy)


def intend(record: Deployment, step: Step, seen: Seen) -> Deployment:
    """What must be on disk before the effect begins."""
    now = seen.now.wall
    record = replace(record, step=step.why)
    match step:
        case Stop():
            return begin_down(record, step, seen)
        case Signal(name=name):
            return signalled(record, name, seen)
        case Remove():
            asked = with_down(record, remove_at=seen.now.mono)
            down = asked.takedown
            return replace(asked, takedown=replace(down, asked_at=seen.now.mono)) if down else asked
        case EndOrphans():
            return with_down(record, orphans_ended_at=seen.now.mono)
        case Preflight():
            return record.at(State.PREFLIGHT, step.why, now) if record.started_at is None else record
        case PrepareImage():
            return record.at(State.IMAGE, step.why, now) if record.started_at is None else record
        case Create() | Start():
            return record.at(State.STARTING, step.why, now)
        case Wait(until=until):
            return replace(record, backoff_until=until).at(State.BACKOFF, step.why, now)
        case _:
            return record


def begin_down(record: Deployment, step: Stop, seen: Seen) -> Deployment:
    """A take-down begins; for a fault it spends a restart at once, so that a kill cannot give it back."""
    now = seen.now.wall
    reason = Reason(step.reason)
    down = Takedown(reason, step.why, begun=seen.now.mono, members=seen.members, container=record.container)
    record = replace(record, takedown=down, restart_waits="").at(State.STOPPING, step.why, now)
    if reason is Reason.WINDOW and record.wearing is not None:
        down = replace(down, drain_s=seen.upkeep.drain_s)
        counted = record.counted(f"restarts.{record.wearing.kind}")
        return replace(counted, takedown=down, wearing=None, window_used=seen.upkeep.opened, healthy_s=0.0)
    if reason is Reason.GIVE_BACK:
        return replace(record, give_back=record.replaces, replaces=None)
    if reason is not Reason.FAULT:
        return record
    verdict = seen.verdict
    port = verdict is not None and verdict.failure is FailureClass.PORT
    kind = record.fault.kind if record.fault else "unknown"
    record = replace(
        record,
        restarts=(*record.restarts, now),
        healthy_s=0.0,
        port_failures=record.port_failures + int(port),
        start_stalls=record.start_stalls + int(kind == Kind.START),
    )
    return record.counted(f"restarts.{kind}")


def signalled(record: Deployment, name: str, seen: Seen) -> Deployment:
    """The first of each signal starts its clock."""
    down = record.takedown
    if down is None:
        return record
    if name == "TERM":
        return replace(record, takedown=replace(down, term_at=seen.now.mono, cut=seen.clients))
    return replace(record, takedown=replace(down, kill_at=down.kill_at or seen.now.mono, asked_at=seen.now.mono))


def failed(record: Deployment, step: Step, why: str) -> Deployment:
    """A step that the runtime did not carry out: a signal counts as sent from its intention on, and was not."""
    if not isinstance(step, Signal) or record.takedown is None:
        return record
    return replace(record, takedown=replace(record.takedown, unsent=why))


def sent(record: Deployment, down: Takedown, name: str, seen: Seen) -> Deployment:
    """A signal arrived; after a failure its time to take effect begins only now."""
    if not down.unsent:
        return record
    kill_at = seen.now.mono if name == "KILL" else down.kill_at
    went = replace(record, takedown=replace(down, unsent="", stuck=False, kill_at=kill_at))
    return went.at(State.STOPPING, down.why, seen.now.wall) if down.stuck else went


def with_down(
    record: Deployment,
    *,
    orphans_ended_at: float | None = None,
    remove_at: float | None = None,
    removed_at: float | None = None,
) -> Deployment:
    """The first of each counts."""
    down = record.takedown
    if down is None:
        return record
    return replace(
        record,
        takedown=replace(
            down,
            orphans_ended_at=down.orphans_ended_at or orphans_ended_at,
            remove_at=down.remove_at or remove_at,
            removed_at=removed_at if removed_at is not None else down.removed_at,
        ),
    )


def finish(record: Deployment, step: Step, outcome: Outcome, seen: Seen, jitter: float = 0.0) -> Deployment:
    """What the effect changed."""
    now = seen.now.wall
    match step:
        case Preflight() | PrepareImage():
            return prepared(record, step, outcome, seen)
        case Create() | Start() if outcome.refused is not None:
            return settled(record, State.FAILED, outcome.refused, now)
        case Create(generation=generation):
            return created(record, generation, outcome)
        case Start():
            fresh = replace(record, started_at=now, ready_at=None, takedown=None, backoff_until=None)
            return fresh.at(State.STARTING, "the container runs; waits for the engine", now)
        case SaveEvidence(kind=kind):
            return evidenced(record, kind, outcome, seen)
        case Abort() if record.fault is not None:
            return replace(record, fault=replace(record.fault, abort_tried=outcome.aborted, abort_at=seen.now.mono))
        case Signal(name=name) if record.takedown is not None:
            return sent(record, record.takedown, name, seen)
        case Sweep() if record.takedown is not None:
            return replace(record, shared=(), takedown=replace(record.takedown, swept=True))
        case Remove():
            gone = with_down(replace(record, container=None), removed_at=seen.now.mono)
            return gone.at(State.RELEASING, step.why, now)
        case Released():
            return released(record, step, seen, jitter)
        case Stuck() if record.takedown is not None:
            return replace(record, takedown=replace(record.takedown, stuck=True)).at(State.QUARANTINED, step.why, now)
        case RollBack(plan_id=plan_id):
            return rolled_back(record, plan_id, step.why, seen)
        case BringBack():
            return settled(replace(record, give_back=None, started_at=None), State.FAILED, step.why, now)
        case Settle(state=state):
            return settled(record, State(state), step.why, now)
        case _:
            return record


def prepared(record: Deployment, step: Preflight | PrepareImage, outcome: Outcome, seen: Seen) -> Deployment:
    """A refusal before a first start or a replacement ends there; before any other start it is tried again."""
    now = seen.now.wall
    if outcome.refused is None:
        if isinstance(step, Preflight):
            return replace(record, checked=record.target)
        return replace(record, imaged=record.target)
    if record.next_plan is not None and record.next_plan != record.plan_id and record.returning is None:
        stays = replace(record, next_plan=None)
        if record.started_at is not None:
            return stays
        return replace(stays, desired=Desired.STOPPED).at(State.STOPPED, outcome.refused, now)
    if record.generation == 0:
        return replace(record, desired=Desired.STOPPED).at(State.FAILED, outcome.refused, now)
    again = replace(record, backoff_until=seen.now.mono + LOOK_AGAIN_S)
    return again.at(State.BACKOFF, f"{outcome.refused}; looks again in {LOOK_AGAIN_S:.0f} s", now)


def created(record: Deployment, generation: int, outcome: Outcome) -> Deployment:
    return replace(
        record,
        generation=generation,
        container=outcome.container,
        plan_id=record.target,
        next_plan=None,
        at_window=False,
        restart_at_window=False,
        wearing=None,
        restart_waits="",
        starts=(*(replace(held, files=None) for held in record.starts), outcome.held)[-KEPT_STARTS:],
        shared=(),
        fault=None,
    )


def evidenced(record: Deployment, kind: str, outcome: Outcome, seen: Seen) -> Deployment:
    """The fault is now on file, and only now may anything be stopped for it."""
    verdict = seen.verdict
    if verdict is None:
        return record
    if record.wearing is not None and record.wearing.kind == kind and not verdict.fault:
        kept = replace(record.wearing, kept=True, incident=outcome.incident)
        return replace(record, wearing=kept).counted(f"incidents.{kind}")
    fault = Fault(
        kind=kind,
        why=verdict.why,
        remedy=verdict.remedy,
        at=seen.now.wall,
        failure=verdict.failure.value if verdict.failure else None,
        incident=outcome.incident,
    )
    return replace(record, fault=fault).counted(f"incidents.{kind}")


def released(record: Deployment, step: Released, seen: Seen, jitter: float) -> Deployment:
    """Free to start again, after the wait that the budget asks for."""
    down, now = record.takedown, seen.now.wall
    record = replace(record, takedown=None, container=None, started_at=None, ready_at=None)
    if down is None or down.reason is not Reason.FAULT:
        return record.at(State.PENDING, step.why, now)
    spent = max(0, len(record.restarts) - 1)
    wait = Budget(spent=spent, allowed=seen.watch.budget, backoff=seen.watch.backoff, jitter=jitter).wait
    record = replace(record, backoff_until=seen.now.mono + wait if wait > 0 else None)
    return record.at(State.BACKOFF if wait > 0 else State.PENDING, f"{down.why}; {step.why}", now)


def rolled_back(record: Deployment, plan_id: str, why: str, seen: Seen) -> Deployment:
    """The last good plan takes over, with a budget of its own; what it replaces is kept as evidence already."""
    down = Takedown(Reason.DEPLOY, why, begun=seen.now.mono, members=seen.members, container=record.container)
    back = replace(
        record,
        next_plan=plan_id,
        returning=record.plan_id,
        takedown=down,
        restarts=(),
        port_failures=0,
        start_stalls=0,
        fault=None,
        checked=None,
        imaged=None,
    )
    return back.counted("rollbacks").at(State.STOPPING, why, seen.now.wall)


def settled(record: Deployment, state: State, why: str, now: float) -> Deployment:
    """At rest until a person says otherwise. What still runs is left running: it is evidence, or it may recover."""
    record = replace(record, takedown=None, backoff_until=None).at(state, why, now)
    if state is State.STOPPED:
        return replace(record, desired=Desired.STOPPED, started_at=None, ready_at=None, fault=None)
    return record
