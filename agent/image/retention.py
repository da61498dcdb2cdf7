"""What may be removed: images that the agent made or fetched and that no kept plan needs (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from agent.image.lock import Lock
from agent.image.port import Made

YOUNG_S = 3600.0
"""Unfinished steps younger than this may be of a build that runs, or that is about to go on."""


@dataclass(frozen=True, slots=True)
class Removable:
    """One name or, for what has none, one id, with the reason. `size` in bytes, None unknown; images share layers."""

    image: str
    why: str
    size: int | None = None


def removable(
    made: Collection[Made], locks: Mapping[str, Lock], kept: Collection[str], now: float
) -> tuple[Removable, ...]:
    """In the order in which they can be removed. `kept`: ids of the plans that are kept, the last good ones included.

    What was here before the agent came is in no list, and neither is what a kept plan was made on.
    """
    needed = {image for plan_id in kept if plan_id in locks for image in ids_of(locks[plan_id])}
    return (*_finished(made, needed), *_steps(made, now), *_pulled(locks, needed))


def ids_of(lock: Lock) -> tuple[str, ...]:
    """The image and its base: without the base a changed step could not be built on it."""
    return (lock.image.id, lock.base.id) if lock.base is not None else (lock.image.id,)


def _finished(made: Collection[Made], needed: Collection[str]) -> Iterator[Removable]:
    for one in made:
        if one.id not in needed:
            for name in one.names:
                yield Removable(name, f"built for {one.slug}, and no kept plan uses it", one.size)


def _steps(made: Collection[Made], now: float) -> Iterator[Removable]:
    """Steps that no image with a name stands on, the last first: each is a leaf when its turn comes."""
    by_id = {one.id: one for one in made}
    held: set[str] = set()
    for one in made:
        if one.names:
            held |= set(_below(one, by_id))
    loose = [one for one in made if not one.names and one.id not in held and now - one.created >= YOUNG_S]
    for one in sorted(loose, key=lambda one: len(tuple(_below(one, by_id))), reverse=True):
        yield Removable(one.id, f"a step of an unfinished build for {one.slug}", one.size)


def _below(one: Made, by_id: Mapping[str, Made]) -> Iterator[str]:
    parent = one.parent
    while parent is not None and parent in by_id:
        yield parent
        parent = by_id[parent].parent


def _pulled(locks: Mapping[str, Lock], needed: Collection[str]) -> Iterator[Removable]:
    """By their names: one id may have names of other people."""
    seen: set[str] = set()
    for lock in locks.values():
        fetched = [lock.image] if lock.how == "pulled" else []
        if lock.base is not None and lock.base_how == "pulled":
            fetched.append(lock.base)
        for image in fetched:
            if image.id not in needed and image.reference not in seen:
                seen.add(image.reference)
                yield Removable(image.reference, "pulled by the agent, and no kept plan uses it")
