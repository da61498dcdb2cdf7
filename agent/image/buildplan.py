"""The steps of a plan, typed again: a base, sources that are pinned, and steps in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from agent.image.trouble import BuildIncomplete
from agent.plan.model import ImagePlan
from agent.profile.fact import value_of
from agent.profile.steps import Source, Step


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One source, pinned: a git commit or tag, or an archive's SHA-256. `license` None: nobody stated one."""

    name: str
    git: str | None = None
    commit: str | None = None
    tag: str | None = None
    archive: str | None = None
    sha256: str | None = None
    license: str | None = None

    @property
    def url(self) -> str:
        return self.git or self.archive or ""

    @property
    def said(self) -> str:
        """`NAME (URL at COMMIT)`, for sentences."""
        state = self.commit or self.tag or self.sha256 or "nothing that pins it"
        return f"{self.name} ({self.url} at {state[:12]})"


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """What is built. Steps are numbered from 1 in messages."""

    slug: str
    reference: str
    base: str
    sources: Mapping[str, SourceSpec]
    steps: tuple[Step, ...]


NO_BASE = "base-image.not-stated"
"""Stands in FROM where a plan that is only looked at has no base yet."""


def read(image: ImagePlan, slug: str) -> BuildPlan:
    """The plan's image as something that can be built. Raises BuildIncomplete with everything that it lacks."""
    plan = sketched(image, slug)
    base = [] if image.base else ["no base image is stated"]
    if gaps := [*base, *_source_gaps(plan.sources), *_step_gaps(plan)]:
        raise BuildIncomplete(reference=image.reference, why="; ".join(gaps))
    return plan


def sketched(image: ImagePlan, slug: str) -> BuildPlan:
    """The same as far as it is stated, to be looked at. Raises BuildIncomplete for sources that no step can name."""
    sources: dict[str, SourceSpec] = {}
    steps: list[Step] = []
    for entry in image.steps:
        if "source" in entry:
            one = _source(entry["source"], image.reference)
            sources[one.name] = one
        else:
            steps.append(_step(entry, image.reference))
    plan = BuildPlan(slug, image.reference, image.base or NO_BASE, sources, tuple(steps))
    if gaps := _unstated(plan):
        raise BuildIncomplete(reference=image.reference, why="; ".join(gaps))
    return plan


def _source(data: Mapping[str, object], reference: str) -> SourceSpec:
    rest = {key: value for key, value in data.items() if key != "name"}
    try:
        source = Source.model_validate(rest)
    except ValidationError as error:
        raise BuildIncomplete(reference=reference, why=_reason(f"source {data.get('name')}", error)) from error
    return SourceSpec(
        name=str(data["name"]),
        git=source.git,
        commit=value_of(source.commit),
        tag=value_of(source.tag),
        archive=source.archive,
        sha256=value_of(source.sha256),
        license=source.license,
    )


def _step(data: Mapping[str, object], reference: str) -> Step:
    try:
        return Step.model_validate(data)
    except ValidationError as error:
        raise BuildIncomplete(reference=reference, why=_reason(f"step {'/'.join(data)}", error)) from error


def _reason(what: str, error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{what}: {'.'.join(map(str, first['loc']))}: {first['msg']}"


def _source_gaps(sources: Mapping[str, SourceSpec]) -> list[str]:
    return [
        f"nothing says which state of {one.name} is meant"
        for one in sources.values()
        if not (one.sha256 if one.archive else one.commit or one.tag)
    ]


def _unstated(plan: BuildPlan) -> list[str]:
    return [
        f"step {number} ({step.kind}) names the source {name}, which is not stated"
        for number, step in enumerate(plan.steps, 1)
        for name in _named(step)
        if name not in plan.sources
    ]


def _step_gaps(plan: BuildPlan) -> list[str]:
    return [
        f"step {number} (extension) has no arch, and no card was chosen that would tell it"
        for number, step in enumerate(plan.steps, 1)
        if step.extension is not None and not step.extension.arch
    ]


def _named(step: Step) -> list[str]:
    """The sources that a step takes from."""
    if step.apply is not None:
        onto = [] if step.apply.onto.startswith(("{", "/")) else [step.apply.onto]
        return [step.apply.source, *onto]
    if step.run is not None:
        return [step.run.source, *(step.run.before or ())]
    one = step.copy_ or step.pip or step.extension
    return [one.source] if one is not None and one.source is not None else []
