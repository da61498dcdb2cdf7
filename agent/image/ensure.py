"""Making sure that a plan's image is here: found, pulled or built, once however many ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias
from weakref import WeakKeyDictionary

from agent.image.port import ImageReady, ImageRuntime, Say
from agent.image.pull import Means, hold_to_digest, pull
from agent.image.reference import digest_of
from agent.image.shared import Shared
from agent.image.trouble import ImageError, ImageNotFound
from agent.plan.model import ImagePlan, Plan

Build: TypeAlias = Callable[[Plan, Say], Awaitable[ImageReady]]
"""Runs a plan's build steps; `agent.image.build` has the one that is used."""

_PULLS: WeakKeyDictionary[ImageRuntime, Shared[ImageReady]] = WeakKeyDictionary()
"""What is being pulled, by runtime: two deployments of one image, or a command and the loop, make one pull."""


class NoBuilder(ImageError):
    """The image is built, and nothing here builds."""

    code = "image.no_builder"
    message = "cannot build {reference}: this runtime builds no images"
    hint = "use the docker runtime"


async def ensure(
    plan: Plan, runtime: ImageRuntime, say: Say, *, build: Build | None = None, means: Means | None = None
) -> ImageReady:
    """The plan's image, here when this returns. A container is created from the answer's `reference`.

    `local` must be here, `pull` is here or is fetched (a restart never needs the registry), `build` is here or is built
    by `build`. Raises ImageError and its kinds, and RuntimeTrouble where the runtime does not answer.
    """
    image = plan.image
    if image is None:
        raise ImageNotFound(reference="an image", why="the plan has none", advice="deploy it with the process runtime")
    if image.how == "build":
        if build is None:
            raise NoBuilder(reference=image.reference)
        return await build(plan, say)
    return await fetch(image, runtime, say, means)


async def fetch(image: ImagePlan, runtime: ImageRuntime, say: Say, means: Means | None = None) -> ImageReady:
    """An image that is not built: used where it is here, else pulled."""
    if (here := await _here(image.reference, runtime)) is not None:
        # a local image is used as it is: what the plan found then may have been made anew since
        return hold_to_digest(here, image.digest if image.how == "pull" else None)
    if image.how == "local":
        advice = "make it again under that name, or plan again: agentctl plan shows where it would come from"
        raise ImageNotFound(reference=image.reference, why="it is not on this host any more", advice=advice)
    pulls = _PULLS.setdefault(runtime, Shared())
    got = await pulls.run(image.reference, lambda tell: pull(image.reference, runtime, tell, means), say)
    return hold_to_digest(got, image.digest)


async def _here(reference: str, runtime: ImageRuntime) -> ImageReady | None:
    found = await runtime.image(reference)
    return None if found is None else ImageReady(reference, digest_of(found.digests, reference), found.id)
