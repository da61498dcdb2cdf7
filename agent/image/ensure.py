"""Making sure that a plan's image is here: found, pulled or built, once however many ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from weakref import WeakKeyDictionary

from agent.image.lock import Lock, Locks
from agent.image.port import ImageReady, ImageRuntime, Say
from agent.image.pull import Means, hold_to_digest, pull
from agent.image.reference import by_digest, digest_of, parse
from agent.image.shared import Shared
from agent.image.trouble import ImageError, ImageNotFound
from agent.plan.model import ImagePlan, Plan

Build: TypeAlias = Callable[[Plan, Say], Awaitable[ImageReady]]
"""Runs a plan's build steps; `agent.image.build.Overlays` is the one that is used."""

_PULLS: WeakKeyDictionary[ImageRuntime, Shared[ImageReady]] = WeakKeyDictionary()
"""What is being pulled, by runtime: two deployments of one image, or a build and a deployment, make one pull."""


class NoBuilder(ImageError):
    """The image is built, and nothing here builds."""

    code = "image.no_builder"
    message = "cannot build {reference}: this runtime builds no images"
    hint = "use the docker runtime"


@dataclass(frozen=True, slots=True)
class Supply:
    """What images come through beside the runtime."""

    build: Build | None = None
    locks: Locks | None = None
    means: Means = field(default_factory=Means)


async def ensure(plan: Plan, runtime: ImageRuntime, say: Say, supply: Supply | None = None) -> ImageReady:
    """The plan's image, here when this returns. A container is created from the answer's `reference`.

    `local` must be here, `pull` is here or is fetched (a restart never needs the registry), `build` is here or is made.
    With `locks`, what a tag was for this plan at first it stays. Raises ImageError and its kinds, and RuntimeTrouble
    where the runtime does not answer.
    """
    supply = supply or Supply()
    image = plan.image
    if image is None:
        raise ImageNotFound(reference="an image", why="the plan has none", advice="deploy it with the process runtime")
    if image.how == "build":
        if supply.build is None:
            raise NoBuilder(reference=image.reference)
        return await supply.build(plan, say)
    if image.how == "local":
        return await _local(plan, image, runtime, supply.locks)
    return await _pulled(plan, image, runtime, say, supply)


async def fetch(image: ImagePlan, runtime: ImageRuntime, say: Say, means: Means | None = None) -> ImageReady:
    """An image of a registry: used where it is here, else pulled."""
    if (here := await found(image.reference, runtime)) is not None:
        return hold_to_digest(here, image.digest)
    pulls = _PULLS.setdefault(runtime, Shared())
    got = await pulls.run(image.reference, lambda tell: pull(image.reference, runtime, tell, means), say)
    return hold_to_digest(got, image.digest)


async def update(plan: Plan, runtime: ImageRuntime, say: Say, supply: Supply) -> ImageReady:
    """What the plan's tag means now, pulled in any case; from here on this plan means that."""
    if plan.image is None:
        raise ImageNotFound(reference="an image", why="the plan has none", advice="deploy it with the process runtime")
    got = hold_to_digest(await pull(plan.image.reference, runtime, say, supply.means), None)
    if supply.locks is not None:
        await supply.locks.write(plan.plan_id, Lock(got, "pulled"))
    return got


async def to_run(plan: Plan, locks: Locks) -> str | None:
    """What the plan's container is created from, as it was made sure of; None where it never was."""
    lock = await locks.read(plan.plan_id)
    return None if lock is None else lock.image.reference


async def found(reference: str, runtime: ImageRuntime) -> ImageReady | None:
    """What is here under a name."""
    here = await runtime.image(reference)
    return None if here is None else ImageReady(reference, digest_of(here.digests, reference), here.id)


async def _local(plan: Plan, image: ImagePlan, runtime: ImageRuntime, locks: Locks | None) -> ImageReady:
    """Used as it is: what the plan found then may have been made anew since."""
    here = await found(image.reference, runtime)
    if here is None:
        advice = "make it again under that name, or plan again: agentctl plan shows where it would come from"
        raise ImageNotFound(reference=image.reference, why="it is not on this host any more", advice=advice)
    hold_to_digest(here, None)
    await _keep(locks, plan, here, "found")
    return here


async def _pulled(plan: Plan, image: ImagePlan, runtime: ImageRuntime, say: Say, supply: Supply) -> ImageReady:
    lock = await supply.locks.read(plan.plan_id) if supply.locks is not None else None
    if lock is not None and lock.image.digest is not None and _same_repository(lock, image):
        got = await _as_locked(plan, lock.image, runtime, say, supply)
        if got != lock.image and supply.locks is not None:
            await supply.locks.write(plan.plan_id, replace(lock, image=got))
        return got
    was_here = await runtime.image(image.reference) is not None
    got = await fetch(image, runtime, say, supply.means)
    await _keep(supply.locks, plan, got, "found" if was_here else "pulled")
    return got


async def _keep(locks: Locks | None, plan: Plan, image: ImageReady, how: str) -> None:
    """What the agent brought once stays its own to remove, though it is found here ever after."""
    if locks is None:
        return
    known = await locks.read(plan.plan_id)
    if known is None or known.image.id != image.id:
        await locks.write(plan.plan_id, Lock(image, how))
    elif known.image != image:
        await locks.write(plan.plan_id, replace(known, image=image))


def _same_repository(lock: Lock, image: ImagePlan) -> bool:
    return parse(lock.image.reference).repository == parse(image.reference).repository


async def _as_locked(plan: Plan, lock: ImageReady, runtime: ImageRuntime, say: Say, supply: Supply) -> ImageReady:
    """Under its own name while that still means the same, else by digest: an equal plan runs an equal image."""
    here = await found(lock.reference, runtime)
    if here is not None and here.digest == lock.digest:
        return here
    wanted = by_digest(lock.reference, lock.digest or "")
    try:
        return await fetch(ImagePlan(wanted, "pull"), runtime, say, supply.means)
    except ImageNotFound as error:
        advice = (
            f"this plan ran {lock.digest} before; agentctl pull --update {plan.recipe.slug} takes what the tag is now"
        )
        raise ImageNotFound(reference=wanted, why=error.details["why"], advice=advice) from error
