"""Deployments whose records are lost, from the labels of the containers that are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from agent.action.record import Deployment, State
from agent.container.port import ContainerView

LOST = "its restart budget, counters, supervision and the values of its --set are lost"


def rebuilt(views: Iterable[ContainerView], boot_id: str, now: float) -> Iterator[Deployment]:
    """A record for each slug that has containers: the newest generation is its own.

    A stop removes the container, so whatever is there was meant to run; one that has ended meanwhile is judged as any
    other exit. Supervision starts active.
    """
    newest: dict[str, ContainerView] = {}
    for view in views:
        if view.slug not in newest or newest[view.slug].generation < view.generation:
            newest[view.slug] = view
    for slug, view in sorted(newest.items()):
        yield record_of(slug, view, boot_id, now)


def record_of(slug: str, view: ContainerView, boot_id: str, now: float) -> Deployment:
    record = Deployment(slug=slug, plan_id=view.plan_id, generation=view.generation, container=view.id, boot_id=boot_id)
    record = replace(record, started_at=view.started_at, checked=view.plan_id, imaged=view.plan_id)
    return record.at(State.STARTING, f"found by its container's labels: {LOST}", now)
