"""Is there a container that could be judged?"""

from __future__ import annotations

from agent.container.port import RunState
from agent.samples.model import Miss, Missed
from agent.verdict.case import Case
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Remedy, Verdict

HIDDEN = ("metrics", "connections", "processes")
"""Signals that are not to be had of a container whose processes and port cannot be seen."""


def judge(case: Case) -> Verdict | None:
    """The runtime did not answer, the container is gone, has not run yet, or is paused.

    One that cannot be seen from where the agent is says no more than that, not even that it starts.

    A runtime that hangs says nothing about the engine: neither healthy nor dead. A container that is gone was removed
    by somebody, or by a reboot, which the caller knows by the boot's id.
    """
    container = case.last.container
    if isinstance(container, Missed):
        if container.kind is Miss.GONE:
            return gone(case, container.why)
        return Verdict(Judged.UNOBSERVABLE, f"cannot look at the container: {container.why}", blind=("container",))
    if container.running and container.hidden:
        return Verdict(Judged.UNOBSERVABLE, f"cannot look: {container.hidden}", blind=HIDDEN)
    if container.state is RunState.CREATED:
        return Verdict(Judged.STARTING, "the container is created and not started yet", phase="boot")
    if container.state is RunState.PAUSED:
        return Verdict(Judged.ASLEEP, "the container is paused by the runtime; nothing is done to it")
    if container.state is RunState.REMOVING:
        return Verdict(Judged.UNOBSERVABLE, "the container is being removed")
    return None


def gone(case: Case, why: str) -> Verdict:
    """A stop before the removal is a person's wish. A removal by force is not: whoever makes room for a new container
    of that name does it as well, and the deployment is still wanted here."""
    stop = case.last.stop
    if stop is not None and stop.signal != "KILL":
        return Verdict(Judged.STOPPED, f"stopped ({stop.signal}) and removed by a person")
    who = "somebody removed it by force while it ran; agentctl stop is how to keep it down" if stop is not None else why
    return Verdict(Judged.DEAD, f"the container is gone: {who}", kind=Kind.GONE, remedy=Remedy.RESTART)
