"""What the runtime shows against what the record says: one again after a kill at any instruction (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.action.record import RESTING, Deployment, Desired, Reason, State, Takedown
from agent.container.port import ContainerView


@dataclass(frozen=True, slots=True)
class Adopted:
    """The record as it now is, the container that is its own, and what is left of older generations."""

    record: Deployment
    container: ContainerView | None
    leftovers: tuple[ContainerView, ...]
    note: str = ""
    """What somebody else did to it, for the events."""


def adopt(record: Deployment, views: Sequence[ContainerView], boot_id: str, now: float) -> Adopted:
    """Match the containers of one slug with its record.

    The container with the highest generation is the deployment's own, unless the record knows a higher one (then that
    one is gone). A generation above the record's was created just before a kill: it is taken over, never made twice.
    """
    ours = sorted((v for v in views if v.slug == record.slug), key=lambda v: v.generation)
    current = ours[-1] if ours and ours[-1].generation >= record.generation else None
    leftovers = tuple(v for v in ours if v is not current)
    note = ""
    if current is not None and by_hand(record, current):
        note = f"its container {current.name} was started again by somebody else; it loads anew"
        record = replace(record, ready_at=None, healthy_s=0.0, fault=None).at(State.STARTING, note, now)
    if current is not None:
        record = take_over(record, current)
    if boot_id and record.boot_id != boot_id:
        record = after_boot(record, current, boot_id, now)
    return Adopted(record, current, leftovers, note)


def take_over(record: Deployment, current: ContainerView) -> Deployment:
    """Bring the record up to the container that is there."""
    if current.generation > record.generation:
        plan = current.plan_id or record.target
        later = record.next_plan if record.next_plan != plan else None
        record = replace(record, generation=current.generation, plan_id=plan, next_plan=later, ready_at=None)
    started = current.started_at if current.started_at is not None else record.started_at
    return replace(record, container=current.id, started_at=started)


def by_hand(record: Deployment, current: ContainerView) -> bool:
    """`docker restart` or `docker start`: the agent itself starts a container once, before it is ready."""
    known = record.takedown is None and record.container == current.id and record.state not in RESTING
    if not known or not current.running or current.started_at is None or record.ready_at is None:
        return False
    return current.started_at > record.ready_at


def timeless(record: Deployment) -> Deployment:
    """Without times of the boot before: its monotonic clock has begun again."""
    down, fault = record.takedown, record.fault
    if down is not None:
        down = replace(
            down,
            begun=None,
            term_at=None,
            kill_at=None,
            unsent="",
            unseen_at=None,
            remove_at=None,
            asked_at=None,
            removed_at=None,
            orphans_ended_at=None,
        )
    if fault is not None:
        fault = replace(fault, abort_at=None)
    return replace(record, takedown=down, fault=fault, backoff_until=None, starts=(), shared=(), wearing=None)


def after_boot(record: Deployment, current: ContainerView | None, boot_id: str, now: float) -> Deployment:
    """A reboot ends every container without a fault: no incident, and no restart of the budget is spent."""
    first_look = not record.boot_id
    record = timeless(replace(record, boot_id=boot_id))
    if first_look or (current is not None and current.running):
        return record
    if record.desired is not Desired.RUNNING or record.state in RESTING:
        return record
    why = "the host was restarted; starts again what should run"
    down = Takedown(Reason.REBOOT, why) if current is not None else None
    fresh = replace(
        record,
        started_at=None,
        ready_at=None,
        container=None,
        fault=None,
        takedown=down,
        checked=None,
        backoff_until=None,
    )
    return fresh.at(State.PENDING, why, now)
