"""What a person's wish must fulfil before a loop gets it, and how it ends where the loop says no."""

from __future__ import annotations

from dataclasses import replace

from agent.action.operation import DEPLOY, RESTART, START, Operation, fail
from agent.action.record import RESTING, Deployment, Desired
from agent.errors import Refused
from agent.metrics.board import Board
from agent.plan.model import Plan

STARTS = frozenset({DEPLOY, START, RESTART})


class PlanIncomplete(Refused):
    """The operator must supply something first."""

    code = "plan.missing"
    message = "cannot deploy {slug}: the plan misses {keys}"
    hint = "{how}"


class BrokenHost(Refused):
    """What runs would not come back."""

    code = "deployment.broken_host"
    message = "cannot restart {slug}: {why}"
    hint = "mend that first; to try all the same: agentctl stop {slug}, then agentctl start --force {slug}"


def holds(record: Deployment) -> bool:
    """Whether a deployment has, or will have, its cards, its name and its ports."""
    if record.state in RESTING:
        return record.container is not None
    return record.desired is Desired.RUNNING


def moved(before: Board, now: Board) -> bool:
    """Whether an operation could have come further."""
    first_look = before.sample is None and now.sample is not None
    return first_look or before.record != now.record or before.progress != now.progress or before.refused != now.refused


def same_runtime(running: Plan, wanted: Plan) -> None:
    """A deployment stays with its runtime: the proof of release is the runtime's own."""
    if running.runtime != wanted.runtime:
        slug = running.recipe.slug
        why = f"{slug} is deployed with the {running.runtime} runtime and the new plan wants {wanted.runtime}"
        raise Refused(why=why, advice=f"agentctl remove {slug}, then deploy it again")


def refused(operation: Operation, board: Board | None, now: float) -> Operation:
    """What a person asked to start ends with the refusal of its preparation, findings and all, also where the agent
    itself goes on trying."""
    if operation.over or operation.kind not in STARTS or board is None or board.refused is None:
        return operation
    if board.refused.plan_id != (operation.plan_id or board.record.target):
        return operation
    return replace(fail(operation, board.refused.error["message"], now), error=board.refused.error)
