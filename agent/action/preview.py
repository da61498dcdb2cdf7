"""What a deploy would do, step by step, if each step went well (pure): the real decision, fed with ideal outcomes."""

from __future__ import annotations

from dataclasses import replace

from agent.action.decide import decide
from agent.action.model import Create, Nothing, Remove, Signal, Start, Step, Yield
from agent.action.record import Deployment
from agent.action.seen import Release, Seen
from agent.action.transition import Outcome, finish, intend
from agent.container.port import ContainerView, RunState

MOST_STEPS = 40


def preview(record: Deployment, seen: Seen) -> tuple[str, ...]:
    """The sentences of the steps until the new container runs, or until only waiting is left."""
    said: list[str] = []
    for _ in range(MOST_STEPS):
        if record.takedown is not None and seen.container is None:
            seen = replace(seen, release=Release())
        step = decide(record, seen)
        if isinstance(step, Nothing):
            break
        said.append(step.why)
        record = finish(intend(record, step, seen), step, ideal(step), seen)
        if isinstance(step, Yield):
            seen = replace(seen, other="rests")
        seen = replace(seen, container=after(step, record, seen.container), verdict=None)
        if isinstance(step, Start):
            said.append("watches it until it is ready")
            break
    return tuple(said)


def ideal(step: Step) -> Outcome:
    return Outcome(container="new", incident="new") if isinstance(step, Create) else Outcome()


def after(step: Step, record: Deployment, container: ContainerView | None) -> ContainerView | None:
    """The container as the step leaves it."""
    match step:
        case Create(generation=generation):
            return ContainerView("new", record.slug, record.slug, record.plan_id, generation, RunState.CREATED)
        case Signal() if container is not None:
            return replace(container, state=RunState.EXITED)
        case Remove():
            return None
        case _:
            return container
