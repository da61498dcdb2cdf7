"""Carry out one step: one small function a step, each idempotent, each saying what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.action.model import (
    Abort,
    BringBack,
    Create,
    EndOrphans,
    Preflight,
    PrepareImage,
    Remove,
    SaveEvidence,
    Signal,
    Start,
    Step,
    Sweep,
    Yield,
)
from agent.action.record import Deployment, Held
from agent.action.seen import Seen, Survivor
from agent.action.transition import Outcome
from agent.container.port import ContainerSpec, Runtime
from agent.container.trouble import StillRuns
from agent.errors import AgentError, RuntimeTrouble
from agent.incident.model import Case, Incident
from agent.preflight.model import Finding


@dataclass(frozen=True, slots=True)
class Work:
    """What the steps need that differs by deployment. Each is an effect of an adapter behind a plain function."""

    runtime: Runtime
    spec: Callable[[Deployment, int], Awaitable[ContainerSpec]]
    """The container to create for a generation: its secrets are read here and nowhere else."""
    check: Callable[[Deployment, Seen], Awaitable[tuple[Finding, ...]]]
    """Every preflight check of the plan that comes next, the running share credited."""
    image: Callable[[Deployment], Awaitable[None]]
    """Make sure that the image is there; raises what stands in the way."""
    evidence: Callable[[Case, bool], Awaitable[Incident]]
    abort: Callable[[bool], Awaitable[str]]
    """Abort requests (narrow or everything); the word for what was tried."""
    kill: Callable[[Survivor], Awaitable[None]]
    held: Callable[[], Awaitable[Held]]
    """What of the host is in use now."""
    sweep: Callable[[tuple[tuple[str, int], ...]], Awaitable[str]]
    """Remove files of /dev/shm by name and inode; what could not be, in words."""
    make_room: Callable[[str], Awaitable[None]]
    """Ask another deployment to stop, for this one."""
    bring_back: Callable[[str], Awaitable[None]]
    """Ask it to start again."""
    logs: Path
    """Folder of the saved logs."""


async def execute(step: Step, record: Deployment, seen: Seen, work: Work) -> Outcome:
    """Run `step`. Raises RuntimeTrouble only where trying again at the next tick is right."""
    match step:
        case Preflight():
            return await preflight(record, seen, work)
        case PrepareImage():
            return await prepare_image(record, work)
        case Create(generation=generation):
            return await create(record, generation, work)
        case Start(container=container):
            return await start(container, work)
        case SaveEvidence(kind=kind, brief=brief):
            return await save_evidence(record, kind, brief, seen, work)
        case Abort(everything=everything):
            return Outcome(aborted=await work.abort(everything))
        case Signal(container=container, name=name):
            await work.runtime.signal(container, name)
            return Outcome()
        case EndOrphans():
            for survivor in seen.survivors:
                await work.kill(survivor)
            return Outcome()
        case Yield(slug=slug):
            await work.make_room(slug)
            return Outcome()
        case BringBack(slug=slug):
            await work.bring_back(slug)
            return Outcome()
        case Sweep(files=files):
            return Outcome(note=await work.sweep(files))
        case Remove(container=container):
            return await remove(record, container, seen, work)
        case _:
            return Outcome()


async def preflight(record: Deployment, seen: Seen, work: Work) -> Outcome:
    """All checks; those that a person accepted by name do not refuse."""
    findings = await work.check(record, seen)
    accepted = frozenset(record.accepted)
    refusing = [one for one in findings if one.refuses and one.check not in accepted]
    if not refusing:
        overruled = [said(one) for one in findings if one.refuses]
        return Outcome(findings=findings, note=f"accepted by a person: {'; '.join(overruled)}" if overruled else "")
    sentence = f"cannot start {record.slug}: {'; '.join(said(one) for one in refusing)}"
    error = {
        "code": f"preflight.{refusing[0].check.replace('.', '_')}",
        "message": sentence,
        "hint": cures(refusing),
        "details": {"findings": [one.to_json() for one in findings]},
    }
    return Outcome(findings=findings, refused=sentence, error=error)


def said(finding: Finding) -> str:
    """What was found, what is needed and where that is stated; a person who mends one thing wants to know of all."""
    need = f", needs {finding.need}" if finding.need else ""
    stated = f" (stated: {finding.origin})" if finding.origin else ""
    return f"{finding.check}: {finding.found}{need}{stated}"


def cures(findings: Sequence[Finding]) -> str:
    """What to do about each, by its check's name where there are several."""
    if len(findings) == 1:
        return findings[0].hint
    return "; ".join(f"{one.check}: {one.hint}" for one in findings if one.hint)


async def prepare_image(record: Deployment, work: Work) -> Outcome:
    """What stands in the way of an image is an answer; a container engine that is gone for a moment is none.

    A registry or a server of sources was asked again by the pull and the build themselves.
    """
    try:
        await work.image(record)
    except AgentError as error:
        if isinstance(error, RuntimeTrouble) and error.retryable:
            raise
        return Outcome(refused=error.text, error=error.as_dict())
    return Outcome()


async def create(record: Deployment, generation: int, work: Work) -> Outcome:
    """Create, never start: a kill in between is found by the labels."""
    held = await work.held()
    try:
        container = await work.runtime.create(await work.spec(record, generation))
    except AgentError as error:
        if isinstance(error, RuntimeTrouble) and error.retryable:
            raise
        return Outcome(refused=error.text, error=error.as_dict())
    return Outcome(container=container, held=held)


async def start(container: str, work: Work) -> Outcome:
    """Start it. A runtime that says no says it about the launch, and would say it again."""
    try:
        await work.runtime.start(container)
    except RuntimeTrouble as error:
        if error.retryable:
            raise
        return Outcome(refused=error.text, error=error.as_dict())
    return Outcome()


async def save_evidence(record: Deployment, kind: str, brief: bool, seen: Seen, work: Work) -> Outcome:
    """An incident. One that cannot be written (a full disk) must not keep a dead engine dead: it is said."""
    verdict = seen.verdict
    worn = record.wearing if record.wearing is not None and record.wearing.kind == kind else None
    case = Case(
        slug=record.slug,
        kind=kind,
        why=worn.why if worn else verdict.why if verdict else "",
        at=seen.now.wall,
        generation=record.generation,
        container=record.container,
        plan_id=record.plan_id,
        verdict=verdict_json(seen),
    )
    try:
        incident = await work.evidence(case, brief)
    except OSError as error:
        return Outcome(incident=None, note=f"the evidence could not be written: {error}")
    return Outcome(incident=incident.id)


def verdict_json(seen: Seen) -> dict[str, object]:
    verdict = seen.verdict
    if verdict is None:
        return {}
    return {
        "state": verdict.state.value,
        "kind": verdict.kind,
        "why": verdict.why,
        "remedy": verdict.remedy.value,
        "failure": verdict.failure.value if verdict.failure else None,
        "evidence": list(verdict.evidence),
        "figures": dict(verdict.figures),
    }


async def remove(record: Deployment, container: str, seen: Seen, work: Work) -> Outcome:
    """The whole log first, then the container; what was saved already is not saved again."""
    path = log_path(work.logs, record.slug, record.generation, container)
    note = await save_log(record, container, path, seen, work)
    try:
        await work.runtime.remove(container)
    except StillRuns:
        # what outlived its first process and was never seen before, as after a start of the agent
        await work.runtime.signal(container, "KILL")
        raise
    return Outcome(note=note)


async def save_log(record: Deployment, container: str, path: Path, seen: Seen, work: Work) -> str:
    """What could not be saved is tried again for a while; then the engine's return is worth more than its old log."""
    try:
        if await asyncio.to_thread(made_room, path):
            await work.runtime.save_log(container, path)
    except (AgentError, OSError) as error:
        begun = record.takedown.begun if record.takedown else None
        if begun is None or seen.now.mono - begun < seen.watch.release.value:
            raise RuntimeTrouble(action=f"save the log of generation {record.generation}", why=error) from error
        return f"its log could not be saved: {error}"
    return ""


def made_room(path: Path) -> bool:
    """Whether the log is still to be saved; its folder is there then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return not path.exists()


def log_path(folder: Path, slug: str, generation: int, container: str) -> Path:
    """Where the log of a removed container lies."""
    return folder / slug / f"generation-{generation:06d}-{container[:12]}.log"
