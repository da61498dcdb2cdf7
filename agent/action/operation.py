"""Long work that a person asked for. What became of it is read from the record, so it outlives the agent (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent.action.record import Deployment, Desired, State

DEPLOY, STOP, START, RESTART, REMOVE, VERIFY = "deploy", "stop", "start", "restart", "remove", "verify"
DRILL = "drill"


@dataclass(frozen=True, slots=True)
class Operation:
    """One request and where it stands. `state`: `running`, `done` or `failed`; `error` as the API's error object.

    `generation` is the deployment's at the time of asking: a start is done when a later one runs.
    """

    id: str
    slug: str
    kind: str
    created: float
    plan_id: str | None = None
    generation: int = 0
    state: str = "running"
    ended: float | None = None
    error: Mapping[str, Any] | None = None
    progress: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""

    @property
    def over(self) -> bool:
        return self.state != "running"


def followed(operation: Operation) -> bool:
    """Whether others write down how it stands. Verifications and drills do themselves: an older word, read before the
    last one and written after it, would keep them running for ever."""
    return operation.kind not in (VERIFY, DRILL)


def follow(operation: Operation, record: Deployment | None, now: float) -> Operation:
    """Where the operation stands, by the record (None: the deployment is gone)."""
    if operation.over:
        return operation
    if record is None:
        return end(operation, now) if operation.kind == REMOVE else fail(operation, "the deployment was removed", now)
    match operation.kind:
        case "verify" | "drill":
            return operation
        case "deploy" | "start" | "restart":
            return follow_start(operation, record, now)
        case "stop":
            return end(operation, now) if at_rest(record) else follow_down(operation, record, now)
        case _:
            return follow_down(operation, record, now)


def begun(operation: Operation, record: Deployment) -> bool:
    """Whether the wish is in the record. An operation is noted first, so a kill in between leaves it alone."""
    match operation.kind:
        case "deploy":
            return operation.plan_id in (record.plan_id, record.next_plan, record.returning)
        case "stop":
            return record.desired is not Desired.RUNNING
        case "remove":
            return record.desired is Desired.REMOVED
        case "restart":
            return record.takedown is not None or record.generation > operation.generation
        case _:
            return True


def interrupted(operation: Operation, now: float) -> Operation:
    """For one that never began."""
    ended = fail(operation, "the agent ended before it had begun", now, "operation.interrupted")
    return replace(ended, error={**(ended.error or {}), "hint": "nothing was done: ask again"})


def follow_start(operation: Operation, record: Deployment, now: float) -> Operation:
    """Done once a container of the asked plan runs that did not run before, or runs already as asked."""
    plan = operation.plan_id in (None, record.plan_id)
    later = record.generation > operation.generation or operation.kind in (DEPLOY, START)
    if plan and later and record.next_plan is None and record.started_at is not None and record.takedown is None:
        return end(operation, now)
    if record.desired is not Desired.RUNNING:
        return fail(operation, f"it was asked to be {record.desired.value} meanwhile: {record.why}", now)
    if record.state in (State.FAILED, State.QUARANTINED) and hangs_or_rests(record):
        return fail(operation, record.why, now)
    return replace(operation, progress={**operation.progress, "state": record.state.value, "text": record.why})


def follow_down(operation: Operation, record: Deployment, now: float) -> Operation:
    if record.state is State.QUARANTINED and hangs_or_rests(record):
        return fail(operation, record.why, now)
    return replace(operation, progress={**operation.progress, "state": record.state.value, "text": record.why})


def hangs_or_rests(record: Deployment) -> bool:
    """Nothing moves: who waits is told. A take-down that hangs goes on by itself all the same."""
    return record.takedown is None or record.takedown.stuck


def at_rest(record: Deployment) -> bool:
    return record.state is State.STOPPED and record.takedown is None


def end(operation: Operation, now: float) -> Operation:
    return replace(operation, state="done", ended=now)


def fail(operation: Operation, why: str, now: float, code: str = "operation.failed") -> Operation:
    """Failed for a reason; a refusal brings its own error object instead."""
    said = f"cannot {operation.kind} {operation.slug}: {why}"
    hint = f"agentctl events {operation.slug} tells what happened"
    error = {"code": code, "message": said, "hint": hint, "details": {}}
    return replace(operation, state="failed", ended=now, error=error)
