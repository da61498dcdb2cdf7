"""What the API takes and gives, as JSON."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from agent.action.operation import Operation
from agent.action.store import Event
from agent.clock import timestamp
from agent.metrics.board import Board


class Body(BaseModel):
    """A request's body: unknown keys are errors, so that a misspelt option is never silently ignored."""

    model_config = ConfigDict(extra="forbid")


class PlanBody(Body):
    """Either `slug`, or `document` (the recipe's text) with `source` (where it was read)."""

    slug: str | None = Field(None, max_length=300)
    document: str | None = Field(None, max_length=5_000_000)
    source: str = Field("", max_length=4096)
    sets: dict[str, str] = Field(default_factory=dict, max_length=200)


class DeployBody(PlanBody):
    """`plan_id`: refuse when the plan has become another one than the person saw. `accept`: checks to overrule.
    `replace`: the deployment whose place it takes."""

    plan_id: str | None = None
    accept: list[str] = Field(default_factory=list, max_length=100)
    replace: str | None = Field(None, max_length=300)


class VerbBody(Body):
    """Options of stop, start, restart, remove (`drain_s`, `force`) and rollback (`plan_id`)."""

    drain_s: float | None = Field(None, ge=0, le=86_400)
    force: bool = False
    plan_id: str | None = Field(None, max_length=64)


def deployment_json(board: Board) -> dict[str, Any]:
    """One entry of `status -o json`, with what a screen shows beside it."""
    record, verdict = board.record, board.verdict
    return {
        "slug": record.slug,
        "state": record.state.value,
        "since": timestamp(record.since),
        "why": record.why,
        "supervision": record.supervision.value,
        "plan_id": record.plan_id,
        "generation": record.generation,
        "runtime": board.runtime,
        "container": record.container,
        "endpoint": board.endpoint,
        "step": record.step,
        "desired": record.desired.value,
        "looked": timestamp(board.at),
        "restarts": len(record.restarts),
        "restart_budget": max(0, board.plan.watch.budget - len(record.restarts)),
        "incident": record.fault.incident if record.fault else None,
        "accepted": list(record.accepted),
        "startup": {
            "phase": verdict.phase if verdict else None,
            "ratio": verdict.progress if verdict else None,
            "seconds": board.startup_s,
        },
        "figures": dict(verdict.figures) if verdict else {},
        "blind": list(verdict.blind) if verdict else [],
        "progress": dict(board.progress),
    }


def operation_json(operation: Operation) -> dict[str, Any]:
    return {
        "id": operation.id,
        "slug": operation.slug,
        "kind": operation.kind,
        "state": operation.state,
        "created": timestamp(operation.created),
        "ended": timestamp(operation.ended) if operation.ended is not None else None,
        "plan_id": operation.plan_id,
        "progress": dict(operation.progress),
        "error": dict(operation.error) if operation.error else None,
        "by": operation.by,
    }


def event_json(event: Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": timestamp(event.at),
        "slug": event.slug,
        "kind": event.kind,
        "text": event.text,
        "data": dict(event.data),
    }
