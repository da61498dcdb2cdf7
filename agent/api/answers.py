"""What the API gives, typed: each answer is built as its shape, so the document cannot say anything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from agent.action.operation import Operation
from agent.action.record import Deployment as Record
from agent.action.record import Desired, State, Supervision
from agent.action.store import Event
from agent.clock import timestamp
from agent.metrics.board import Board

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""RFC 3339, UTC, milliseconds."""
Number = int | float


class Answer(BaseModel):
    """An object that the API gives. Keys may be added; a reader passes over those that it does not know."""

    model_config = ConfigDict(frozen=True)


class Stored(Answer):
    """An object that carries more than is described here."""

    model_config = ConfigDict(frozen=True, extra="allow")


class ErrorObject(Answer):
    """What cannot be done, why, and what to do about it: the same object that the command line prints."""

    code: str
    message: str
    hint: str
    details: dict[str, JsonValue]


class ErrorAnswer(Answer):
    """The body of every answer from 400 on."""

    error: ErrorObject


class Startup(Answer):
    """How far a start is. `ratio` 0..1 of its phase, `seconds` of the last whole start; null is unknown."""

    phase: str | None
    ratio: float | None
    seconds: float | None


class RestartWaits(Answer):
    """A restart that waits for a maintenance window: for a new `plan`, a `person`, or because it is `slow` or its
    `memory` grows."""

    reason: str
    why: str


class VerificationAnswer(Answer):
    """When the plan that is deployed was last held against its claims, what came of it, and when the site's schedule
    comes by next; null is never."""

    at: Time | None
    text: str
    next: Time | None


class Deployment(Answer):
    """One entry of `agentctl status -o json`, with what a screen shows beside it."""

    slug: str
    state: State
    since: Time
    why: str
    supervision: Supervision
    plan_id: str
    generation: int
    runtime: str
    container: str | None
    endpoint: str | None
    step: str
    desired: Desired
    looked: Time
    restarts: int
    restart_budget: int
    incident: str | None
    accepted: list[str]
    startup: Startup
    figures: dict[str, JsonValue]
    blind: list[str]
    restart_waits: RestartWaits | None
    verification: VerificationAnswer
    progress: dict[str, JsonValue]


class OperationAnswer(Answer):
    """Long work that a person asked for, and where it stands."""

    id: str
    slug: str
    kind: str
    state: Literal["running", "done", "failed"]
    created: Time
    ended: Time | None
    plan_id: str | None
    progress: dict[str, JsonValue]
    error: ErrorObject | None
    by: str


class EventAnswer(Answer):
    """One thing that the agent saw or did."""

    seq: int
    at: Time
    slug: str
    kind: str
    text: str
    data: dict[str, JsonValue]


class KeptPlan(Answer):
    """A plan that a deployment has had, and whether an engine of it became ready."""

    plan_id: str
    at: Time
    current: bool
    served: bool


class Incident(Answer):
    """The evidence kept for one fault: file → bytes, and what could not be had → why not."""

    id: str
    slug: str
    kind: str
    why: str
    at: Time
    generation: int
    seconds: float
    evidence: dict[str, int]
    missing: dict[str, str]


class WholeIncident(Incident):
    """With the verdict that it was kept for."""

    verdict: dict[str, JsonValue]
    plan_id: str


def deployment(board: Board) -> Deployment:
    """One deployment as of its last tick."""
    record, verdict = board.record, board.verdict
    return Deployment(
        slug=record.slug,
        state=record.state,
        since=timestamp(record.since),
        why=record.why,
        supervision=record.supervision,
        plan_id=record.plan_id,
        generation=record.generation,
        runtime=board.runtime,
        container=record.container,
        endpoint=board.endpoint,
        step=record.step,
        desired=record.desired,
        looked=timestamp(board.at),
        restarts=len(record.restarts),
        restart_budget=max(0, board.plan.watch.budget - len(record.restarts)),
        incident=record.fault.incident if record.fault else None,
        accepted=list(record.accepted),
        startup=Startup(
            phase=verdict.phase if verdict else None,
            ratio=verdict.progress if verdict else None,
            seconds=board.startup_s,
        ),
        figures=dict(verdict.figures) if verdict else {},
        blind=list(verdict.blind) if verdict else [],
        restart_waits=RestartWaits(reason=record.restart_waits, why=waits_why(record))
        if record.restart_waits
        else None,
        verification=VerificationAnswer(
            at=at_or_null(board.verified.at), text=board.verified.text, next=at_or_null(board.verified.following)
        ),
        progress=dict(board.progress),
    )


def at_or_null(wall: float | None) -> str | None:
    return None if wall is None else timestamp(wall)


def waits_why(record: Record) -> str:
    worn = record.wearing
    if worn is not None and worn.kind == record.restart_waits:
        return worn.why
    return "a new plan is ready to take over" if record.restart_waits == "plan" else "a person asked for it"


def operation(one: Operation) -> OperationAnswer:
    return OperationAnswer.model_validate(
        {
            "id": one.id,
            "slug": one.slug,
            "kind": one.kind,
            "state": one.state,
            "created": timestamp(one.created),
            "ended": timestamp(one.ended) if one.ended is not None else None,
            "plan_id": one.plan_id,
            "progress": dict(one.progress),
            "error": dict(one.error) if one.error else None,
            "by": one.by,
        }
    )


def event(one: Event) -> EventAnswer:
    return EventAnswer(
        seq=one.seq, at=timestamp(one.at), slug=one.slug, kind=one.kind, text=one.text, data=dict(one.data)
    )


def kept_plan(one: Mapping[str, Any]) -> KeptPlan:
    return KeptPlan(plan_id=one["plan_id"], at=timestamp(one["at"]), current=one["current"], served=one["served"])
