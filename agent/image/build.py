"""Overlay builds: a base, sources and steps become an image whose name says everything that went in."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import IO

from agent.errors import RuntimeTrouble
from agent.image.buildplan import BuildPlan, read
from agent.image.dockerfile import Dockerfile, write
from agent.image.ensure import found
from agent.image.follow import Following
from agent.image.lock import Lock, LockedSource, Locks
from agent.image.materials import Gathering, Materials
from agent.image.port import Builder, Context, Contexts, ImageReady, ImageRuntime, InstructionFailed, Say, Sources
from agent.image.pull import Means
from agent.image.shared import Shared
from agent.image.steady import Steady
from agent.image.streams import closing
from agent.image.trouble import ImageError, ImageNotFound
from agent.plan.model import ImagePlan, Plan

FORMAT = 1
"""Changes when equal inputs come to mean another image."""
DIGITS = 12


@dataclass(frozen=True, slots=True)
class Workshop:
    """What builds go through."""

    runtime: ImageRuntime
    builder: Builder
    sources: Sources
    contexts: Contexts
    locks: Locks
    means: Means = field(default_factory=Means)
    waits_s: tuple[float, ...] = (2.0, 10.0, 30.0)
    """Before a build goes on with an Engine that was restarted meanwhile."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Overlays:
    """Builds the images of plans; a call is `agent.image.ensure.Build`."""

    def __init__(self, workshop: Workshop) -> None:
        self._with = workshop
        self._builds: Shared[ImageReady] = Shared()

    async def __call__(self, plan: Plan, say: Say) -> ImageReady:
        """The image, built unless it is here. Raises ImageError and its kinds, BuildIncomplete, RuntimeTrouble."""
        image = image_of(plan)
        lock = await self._with.locks.read(plan.plan_id)
        if lock is not None and (here := await self._there(lock)) is not None:
            return here
        key = json.dumps([plan.recipe.slug, image.base, image.steps], sort_keys=True)
        return await self._builds.run(key, lambda tell: self._make(plan, image, lock, tell), say)

    async def _there(self, lock: Lock) -> ImageReady | None:
        """What was built for this plan before, if nothing else has its name."""
        here = await found(lock.image.reference, self._with.runtime)
        return here if lock.how == "built" and here is not None and here.id == lock.image.id else None

    async def _make(self, plan: Plan, image: ImagePlan, lock: Lock | None, say: Say) -> ImageReady:
        build_plan = as_locked(read(image, plan.recipe.slug), lock)
        gathering = Gathering(self._with.runtime, self._with.builder, self._with.sources, self._with.means)
        materials = await gathering.gather(build_plan, lock.base if lock is not None else None, say)
        dockerfile = write(build_plan, materials.base, materials.known)
        tag = name_of(build_plan.slug, dockerfile, materials)
        async with self._with.locks.held(f"build-{tag}"):
            here = await found(tag, self._with.runtime)
            files: Mapping[str, str] = lock.files if lock is not None else {}
            if here is None:
                here, files = await self._build(build_plan, materials, dockerfile, tag, say)
            else:
                say({"text": f"{tag} is here: nothing of it changed", "ratio": 1.0})
            fresh = locked(build_plan, materials, dockerfile, here, files)
            if lock is not None and lock.base_how:
                fresh = replace(fresh, base_how=lock.base_how)  # who brought it first
            await self._with.locks.write(plan.plan_id, fresh)
        return here

    async def _build(
        self, plan: BuildPlan, materials: Materials, dockerfile: Dockerfile, tag: str, say: Say
    ) -> tuple[ImageReady, Mapping[str, str]]:
        say({"text": f"what goes in: {licences(plan)}", "ratio": None})
        async with self._with.contexts.assembled(dockerfile, materials.trees) as context:
            for note in context.notes:
                say({"text": note, "ratio": None})
            steady = Steady(say, self._with.means.clock, self._with.means.pace_s)
            following = Following(replace(plan, reference=tag), dockerfile, steady)
            try:
                await self._run(context, tag, following, say)
            finally:
                steady.flush()
        here = await found(tag, self._with.runtime)
        if here is None:
            raise ImageNotFound(reference=tag, why="it was built and is not here", advice="was it removed just now?")
        say({"text": following.summary(), "ratio": 1.0})
        return here, context.files

    async def _run(self, context: Context, tag: str, following: Following, say: Say) -> None:
        """Goes on, from the last finished step, with an Engine that went away meanwhile."""
        waits = list(self._with.waits_s)
        while True:
            try:
                return await self._once(context.file, tag, following)
            except RuntimeTrouble as error:
                if not error.retryable or not waits:
                    raise
                wait = waits.pop(0)
                say({"text": f"{error.text}; going on in {wait:g} s", "ratio": None})
                await self._with.sleep(wait)

    async def _once(self, file: IO[bytes], tag: str, following: Following) -> None:
        file.seek(0)
        try:
            async with closing(self._with.builder.build(file, tag)) as events:
                async for event in events:
                    following.note(event)
        except InstructionFailed as error:
            raise following.failure(str(error)) from error


def image_of(plan: Plan) -> ImagePlan:
    """Raises ImageError where there is nothing to build."""
    if plan.image is None or not plan.image.steps:
        reference = plan.image.reference if plan.image is not None else "an image"
        advice = "its image comes from a registry: agentctl pull"
        raise ImageError(reference=reference, why="the plan has no build steps", advice=advice)
    return plan.image


def as_locked(plan: BuildPlan, lock: Lock | None) -> BuildPlan:
    """With the commits that a tag meant when this plan was carried out first."""
    if lock is None:
        return plan
    known = {name: one.commit for name, one in lock.sources.items()}
    sources = {
        name: replace(spec, commit=known[name]) if spec.git is not None and name in known else spec
        for name, spec in plan.sources.items()
    }
    return replace(plan, sources=sources)


def name_of(slug: str, dockerfile: Dockerfile, materials: Materials) -> str:
    """`recipe-agent/SLUG:HASH` over base, steps and every source's state, which is everything that goes in."""
    states = {name: tree.commit for (name, _), tree in materials.trees.items()}
    parts = [FORMAT, materials.image.digest or materials.image.id, dockerfile.text, dict(dockerfile.texts), states]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    plain = re.sub(r"[^a-z0-9]+", "-", slug.lower()).strip("-") or "image"
    return f"recipe-agent/{plain}:{digest[:DIGITS]}"


def licences(plan: BuildPlan) -> str:
    """Every source with its license, as stated."""
    stated = [f"{spec.name} ({spec.license or 'license not stated'})" for spec in plan.sources.values()]
    return ", ".join([plan.base, *stated])


def locked(
    plan: BuildPlan, materials: Materials, dockerfile: Dockerfile, image: ImageReady, files: Mapping[str, str]
) -> Lock:
    """What was found."""
    states = {name: tree.commit for (name, _), tree in materials.trees.items()}
    sources = {
        name: LockedSource(spec.url, states[name], spec.tag, spec.license)
        for name, spec in plan.sources.items()
        if name in states
    }
    return Lock(image, "built", materials.image, materials.how, sources, files, dockerfile.text)
