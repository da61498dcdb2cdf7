"""Which step comes next. Pure: the record, what was seen and the time are arguments."""

from __future__ import annotations

from agent.action.budget import Budget
from agent.action.leak import leak
from agent.action.model import (
    Abort,
    AskCanary,
    Create,
    Nothing,
    Preflight,
    PrepareImage,
    RollBack,
    SaveEvidence,
    Settle,
    Start,
    Step,
    Stop,
    Wait,
    Yield,
)
from agent.action.record import RESTING, Deployment, Desired, Fault, Reason, State, Supervision
from agent.action.seen import Seen
from agent.action.takedown import take_down, unseen
from agent.action.wear import later
from agent.container.port import ContainerView, RunState
from agent.engines.model import FailureClass
from agent.quantity import counted
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Remedy, Verdict

PORT_TRIES = 3
START_TRIES = 2
"""Starts in which nothing moves at all: a file system or a driver that hangs holds the next one up as well."""
ABORT_RECHECK_S = 15.0


def decide(record: Deployment, seen: Seen) -> Step:
    """The one step of this tick, with its sentence."""
    if seen.unreachable is not None:
        if record.takedown is not None:
            return unseen(record.takedown, seen.unreachable, seen)
        return Nothing(f"cannot look: {seen.unreachable}")
    if record.takedown is not None:
        return take_down(record, record.takedown, seen)
    match record.desired:
        case Desired.REMOVED:
            return Stop(Reason.REMOVE, "removed by a person")
        case Desired.STOPPED:
            return rest(record, seen)
        case Desired.RUNNING:
            return run(record, seen)


def rest(record: Deployment, seen: Seen) -> Step:
    """Asked to be stopped."""
    alive = seen.container is not None and seen.container.running
    if record.state is State.STOPPED and not alive:
        return Nothing(record.why)
    return Stop(Reason.STOP, "stopped by a person")


def run(record: Deployment, seen: Seen) -> Step:
    """Asked to run."""
    if record.state in RESTING:
        return Nothing(record.why)
    if record.supervision is Supervision.PAUSED and record.started_at is not None:
        told = seen.verdict.why if seen.verdict else record.why
        return Nothing(f"paused by a person, does nothing: {told}")
    pending = record.next_plan is not None and record.next_plan != record.plan_id
    if pending and (first := prepare(record)) is not None:
        return first
    runs_on = seen.container is not None or record.started_at is not None
    reason = waits_for(record, seen) if runs_on else ""
    if pending and not reason:
        return replace_running(record, seen)
    if record.restart_at_window and runs_on and not reason:
        return Stop(Reason.RESTART, "restarts in the maintenance window, as a person asked")
    step = go_on(record, seen)
    if not isinstance(step, Nothing):
        return step
    if pending or record.restart_at_window:
        return Nothing(f"{step.why}; {'the new plan' if pending else 'a restart'} waits: {reason}")
    return later(record, seen, step)


def waits_for(record: Deployment, seen: Seen) -> str:
    """Why an engine that runs is not taken down for a new plan or a restart now; empty when it may be."""
    if seen.broken:
        return seen.broken
    return seen.window if record.at_window or record.restart_at_window else ""


def go_on(record: Deployment, seen: Seen) -> Step:
    """With the plan that it has."""
    if seen.container is None:
        return begin(record, seen) if record.started_at is None else mend(record, seen)
    if seen.container.state is RunState.CREATED:
        return start_created(record, seen.container)
    return mend(record, seen)


def replace_running(record: Deployment, seen: Seen) -> Step:
    """A new plan whose checks have passed and whose image is there: nothing is stopped before."""
    if seen.container is not None or record.started_at is not None:
        return Stop(Reason.DEPLOY, "the new plan is ready to take over")
    return begin(record, seen)


def prepare(record: Deployment) -> Step | None:
    """What has to be done before a start, each once for a plan."""
    if record.checked != record.target:
        return Preflight("checks the host before anything is touched")
    if record.imaged != record.target:
        return PrepareImage("makes sure that the image is there")
    return None


def begin(record: Deployment, seen: Seen) -> Step:
    """From nothing to a created container."""
    if seen.leftovers:
        return Stop(Reason.RESTART, "an older generation is still there")
    if record.backoff_until is not None and seen.now.mono < record.backoff_until:
        left = record.backoff_until - seen.now.mono
        return Wait(record.backoff_until, f"waits {left:.0f} s more before restart {len(record.restarts)}")
    if seen.broken:
        return Settle(State.QUARANTINED, f"{seen.broken}; mend that, then agentctl start --force {record.slug}")
    if (first := prepare(record)) is not None:
        return first
    if record.replaces is not None and seen.other != "rests":
        return make_room(record.replaces, seen)
    return Create(record.generation + 1, f"creates generation {record.generation + 1}")


def make_room(other: str, seen: Seen) -> Step:
    """The one that is replaced goes only now, when nothing but its cards is missing."""
    if seen.other == "runs":
        return Yield(other, f"{other} makes room: checks have passed and the image is there")
    return Nothing(f"waits until {other} has released what it held")


def start_created(record: Deployment, container: ContainerView) -> Step:
    """A container that was created and never ran: ours to start, if it is this plan's."""
    if container.plan_id != record.plan_id or container.generation != record.generation:
        return Stop(Reason.RESTART, f"generation {container.generation} was created for another plan")
    return Start(container.id, f"starts generation {container.generation}")


def mend(record: Deployment, seen: Seen) -> Step:
    """By the verdict: look on, ask a canary, or act on a fault."""
    verdict = seen.verdict
    if verdict is None:
        return Nothing("has not looked yet")
    if verdict.state is Judged.STOPPED:
        return Settle(State.STOPPED, verdict.why)
    if not verdict.fault:
        if verdict.wants_canary and not seen.canary_out:
            return AskCanary(verdict.why)
        return Nothing(verdict.why)
    if record.supervision is Supervision.OBSERVE:
        return Nothing(f"observes only, would act: {verdict.why}")
    return act(record, verdict, seen)


def act(record: Deployment, verdict: Verdict, seen: Seen) -> Step:
    """Evidence first, then the gentlest remedy that can work.

    An engine that is at fault and then ends is one fault: its evidence is on file, taken while there was more to see.
    """
    fault = record.fault
    if fault is None or (fault.kind != verdict.kind and runs(seen)):
        return SaveEvidence(verdict.kind, brief=not runs(seen), why=f"keeps the evidence: {verdict.why}")
    match verdict.remedy:
        case Remedy.GIVE_UP:
            return give_up(record, State.FAILED, f"{verdict.why}; a restart cannot mend it")
        case Remedy.QUARANTINE:
            return Settle(State.QUARANTINED, verdict.why)
        case Remedy.ABORT:
            return abort(fault, verdict, seen) or restart(record, verdict, seen)
        case _:
            return restart(record, verdict, seen)


def runs(seen: Seen) -> bool:
    return seen.container is not None and seen.container.running


def abort(fault: Fault, verdict: Verdict, seen: Seen) -> Step | None:
    """Abort the zombies, first those only, engine-wide only when nobody else is served; None when that is spent."""
    if fault.abort_at is not None and seen.now.mono - fault.abort_at < ABORT_RECHECK_S:
        return Nothing(f"looks again {ABORT_RECHECK_S:.0f} s after the abort: {verdict.why}")
    if not fault.abort_tried and "narrow" in seen.can_abort:
        return Abort(everything=False, why=f"aborts the requests that nobody waits for: {verdict.why}")
    if fault.abort_tried != "everything" and "everything" in seen.can_abort and seen.served == 0:
        return Abort(everything=True, why=f"aborts all requests, nobody else is served: {verdict.why}")
    return None


def restart(record: Deployment, verdict: Verdict, seen: Seen) -> Step:
    """Within the budget; beyond it a person is needed."""
    if verdict.failure is FailureClass.PORT and record.port_failures + 1 >= PORT_TRIES:
        tried = f"{verdict.why}; tried {PORT_TRIES} times, free the port and start it again"
        return give_up(record, State.FAILED, tried)
    if verdict.kind == Kind.START and record.start_stalls >= START_TRIES - 1:
        tried = f"{verdict.why}, {START_TRIES} starts in a row: what they wait for is not mended by another"
        return give_up(record, State.QUARANTINED, tried)
    if seen.broken:
        return Settle(State.QUARANTINED, f"{verdict.why}; not restarted into a broken host: {seen.broken}")
    if (lost := leak(record.starts)) is not None:
        return Settle(State.QUARANTINED, f"{verdict.why}; not restarted: {lost}; reboot the host")
    budget = budget_of(record, seen)
    if budget.left == 0:
        spent = (
            f"{verdict.why}; restarted {counted(budget.spent, 'time')} since it was last proven healthy, "
            "a person is needed: look at the incidents, then agentctl start --force"
        )
        return give_up(record, State.QUARANTINED, spent)
    if seen.host_wait > 0:
        host = f"all deployments of this host together were restarted too often, {seen.host_wait / 60:.0f} min to wait"
        return Nothing(f"{verdict.why}; {host}")
    return Stop(Reason.FAULT, verdict.why)


def give_up(record: Deployment, state: State, why: str) -> Step:
    """At rest until a person comes, unless there is something good to go back to.

    Only a plan that never became ready is gone back from: one that served is not made better by an older one.
    """
    if record.last_good == record.plan_id or record.returning is not None:
        return Settle(state, why)
    if record.last_good is not None:
        return RollBack(record.last_good, f"{why}; goes back to plan {record.last_good}, the last that became ready")
    if record.replaces is not None:
        return Stop(Reason.GIVE_BACK, f"{why}; {record.replaces}, which made room for it, comes back")
    return Settle(state, why)


def budget_of(record: Deployment, seen: Seen) -> Budget:
    """The record's restarts against the plan's numbers."""
    return Budget(spent=len(record.restarts), allowed=seen.watch.budget, backoff=seen.watch.backoff)
