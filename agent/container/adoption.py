"""Which of the found containers is the deployment's, and what a start of the agent does with it (pure).

The agent may be killed between any two steps. What it finds afterwards is one of these, and nothing else needs a
journal: nothing at all · created, never started · runs · has ended · is being removed · any of them beside leftovers of
earlier generations or plans.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from agent.container.port import ContainerView, RunState


class Resume(StrEnum):
    """What to do first."""

    CLEAR = "clear"
    """Stop and remove leftovers; they hold the GPUs or the name."""
    CREATE = "create"
    START = "start"
    """It was created and the agent was killed before the start."""
    ADOPT = "adopt"
    JUDGE = "judge"
    """It has ended while nobody looked: find out why before anything is removed."""
    REPLACE = "replace"
    """It never ran, and its start failed: remove it and create the next one."""
    WAIT = "wait"
    """The runtime is busy with it."""


@dataclass(frozen=True, slots=True)
class Found:
    """The containers of one deployment. `leftovers` come with those that run first, then the oldest."""

    current: ContainerView | None
    leftovers: tuple[ContainerView, ...]
    next_generation: int


@dataclass(frozen=True, slots=True)
class Resumption:
    """The first step of a start, and the sentence for it."""

    resume: Resume
    container: ContainerView | None
    why: str


def sort_out(containers: Iterable[ContainerView], slug: str, plan_id: str, generation: int = 0) -> Found:
    """Whose is what: the current one has the deployment's plan and, of those, the highest generation.

    `generation` is the highest that the agent itself remembers: a number is never used twice, also where its container
    is gone.
    """
    ours = [container for container in containers if container.slug == slug]
    candidates = [container for container in ours if container.plan_id == plan_id]
    current = max(candidates, key=lambda container: (container.generation, container.running), default=None)
    leftovers = sorted(
        (container for container in ours if container is not current),
        key=lambda container: (not container.running, container.generation),
    )
    highest = max((container.generation for container in ours), default=0)
    return Found(current, tuple(leftovers), max(highest, generation) + 1)


def resumption(found: Found) -> Resumption:
    """What a start after a kill between any two steps has to do first."""
    if running := next((left for left in found.leftovers if left.state in _LIVE), None):
        return Resumption(Resume.CLEAR, running, f"{running.name} (generation {running.generation}) still runs")
    if found.current is None:
        if found.leftovers:
            left = found.leftovers[0]
            return Resumption(Resume.CLEAR, left, f"{left.name} (generation {left.generation}) was left behind")
        return Resumption(Resume.CREATE, None, "there is no container")
    return _of_current(found.current)


_LIVE = frozenset({RunState.RUNNING, RunState.PAUSED, RunState.RESTARTING})


def _of_current(current: ContainerView) -> Resumption:
    name = f"{current.name} (generation {current.generation})"
    match current.state:
        case RunState.RUNNING | RunState.PAUSED | RunState.RESTARTING:
            return Resumption(Resume.ADOPT, current, f"{name} is {current.state}")
        case RunState.CREATED if current.error:
            return Resumption(Resume.REPLACE, current, f"{name} could not be started: {current.error}")
        case RunState.CREATED:
            return Resumption(Resume.START, current, f"{name} was created and never started")
        case RunState.REMOVING:
            return Resumption(Resume.WAIT, current, f"{name} is being removed")
        case RunState.EXITED | RunState.DEAD:
            return Resumption(Resume.JUDGE, current, f"{name} has ended")
