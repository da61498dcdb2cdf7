"""What a person asks, as a change of the record; the loop does the rest (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent.action.record import RESTING, Deployment, Desired, Reason, State, Supervision, Takedown
from agent.errors import Refused


@dataclass(frozen=True, slots=True)
class Want:
    """What is asked for. `replaces`: another deployment, which makes room once nothing else is missing."""

    slug: str
    plan_id: str
    accepted: tuple[str, ...] = ()
    replaces: str | None = None
    sets: Mapping[str, str] = field(default_factory=dict)
    """The person's own values, for the next revision of the recipe."""
    supervision: Supervision = Supervision.ACTIVE
    """For a deployment that is new; one that is there keeps its own."""
    at_window: bool = False
    """It can wait for a maintenance window."""


class NeedsForce(Refused):
    """A person is needed, and says so with --force."""

    code = "deployment.needs_force"
    message = "cannot start {slug}: it is {state}: {why}"
    hint = "mend that first, then: agentctl start --force {slug}"


class NothingToWait(Refused):
    """What does not run needs no window."""

    code = "deployment.not_running"
    message = "cannot restart {slug} in a maintenance window: it is {state}"
    hint = "agentctl start {slug}"


def deploy(record: Deployment | None, want: Want, now: float) -> Deployment:
    """Ask for a plan. A running one is replaced only once the new plan's checks pass and its image is there."""
    if record is None:
        return Deployment(
            slug=want.slug,
            plan_id=want.plan_id,
            accepted=want.accepted,
            replaces=want.replaces,
            sets=want.sets,
            supervision=want.supervision,
            since=now,
            why="was asked for",
        )
    record = replace(
        record,
        desired=Desired.RUNNING,
        accepted=want.accepted,
        next_plan=want.plan_id,
        checked=None,
        imaged=None,
        returning=None,
        replaces=want.replaces,
        sets=want.sets,
        at_window=want.at_window,
    )
    if record.state in RESTING:
        return fresh(record, "was deployed again by a person", now)
    if record.plan_id == want.plan_id:
        return replace(record, next_plan=None)
    return record


def stop(record: Deployment, drain_s: float | None, now: float, why: str = "stopped by a person") -> Deployment:
    """Ask for a stop, after waiting for clients for at most `drain_s` seconds."""
    if record.state is State.STOPPED and record.takedown is None:
        return record
    return down(replace(record, desired=Desired.STOPPED, next_plan=None), Reason.STOP, why, drain_s, now)


def start(record: Deployment, force: bool, now: float) -> Deployment:
    """Ask for a start. A failed or quarantined one wants `force`, which gives the restart budget back."""
    if record.state in (State.FAILED, State.QUARANTINED) and not force:
        raise NeedsForce(slug=record.slug, state=record.state.value, why=record.why)
    record = replace(record, desired=Desired.RUNNING)
    if record.state not in RESTING:
        return record
    return fresh(record, "started by a person", now)


def restart(record: Deployment, drain_s: float | None, now: float) -> Deployment:
    """Ask for a new container of the same plan; spends nothing of the budget."""
    record = replace(record, desired=Desired.RUNNING, fault=None)
    if record.state in (State.FAILED, State.QUARANTINED):
        raise NeedsForce(slug=record.slug, state=record.state.value, why=record.why)
    if record.state is State.STOPPED:
        return fresh(record, "restarted by a person", now)
    return down(record, Reason.RESTART, "restarted by a person", drain_s, now)


def restart_later(record: Deployment) -> Deployment:
    """Ask for a new container of the same plan in the next maintenance window."""
    if record.state in RESTING:
        raise NothingToWait(slug=record.slug, state=record.state.value)
    return replace(record, restart_at_window=True)


def remove(record: Deployment, drain_s: float | None, now: float) -> Deployment:
    """Ask for the deployment to be gone."""
    return down(replace(record, desired=Desired.REMOVED), Reason.REMOVE, "removed by a person", drain_s, now)


def supervise(record: Deployment, mode: Supervision) -> Deployment:
    """Judge and act, only judge and count, or only judge. What the last look came to was said in the old mode."""
    return replace(record, supervision=mode, would=None, step="")


def down(record: Deployment, reason: Reason, why: str, drain_s: float | None, now: float) -> Deployment:
    """Begin a take-down, or turn the one that is under way to a new purpose."""
    if record.takedown is not None:
        # asked anew, what hangs has its whole time again before a person is called
        again = replace(record.takedown, reason=reason, why=why, drain_s=drain_s)
        if again.stuck:
            again = replace(again, stuck=False, unseen_at=None, remove_at=None, asked_at=None, kill_at=None)
            record = record.at(State.STOPPING, why, now)
        return replace(record, takedown=again)
    record = replace(record, takedown=Takedown(reason, why, drain_s=drain_s), fault=None)
    return record.at(State.STOPPING, why, now)


def fresh(record: Deployment, why: str, now: float) -> Deployment:
    """From rest to a new start: an older generation goes first; budget and faults are forgotten."""
    record = replace(
        record,
        restarts=(),
        port_failures=0,
        start_stalls=0,
        fault=None,
        backoff_until=None,
        checked=None,
        imaged=None,
        healthy_s=0.0,
    )
    return down(replace(record, takedown=None), Reason.RESTART, why, None, now)
