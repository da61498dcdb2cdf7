"""Pulling an image: as long as something comes, again where the connection broke, held to its digest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agent.clock import Clock, SystemClock
from agent.errors import AgentError, RuntimeTrouble
from agent.image.port import Fetched, ImageReady, ImageRuntime, Say
from agent.image.progress import Pace, describe
from agent.image.reference import digest_of, parse
from agent.image.steady import Steady
from agent.image.streams import closing
from agent.image.trouble import DigestMismatch, ImageNotFound, PullFailed, PullRefused, PullStalled
from agent.quantity import Bytes

ABSENT = ("manifest unknown", "manifest not found", "not found: ", "no such image", "does not exist")
"""How registries and engines say that they do not have it."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a pull is waited for. There is no limit on the whole: 30 GB over a thin line take what they take."""

    silence_s: float = 180.0
    """Without anything new for so long, the connection is given up."""
    waits_s: tuple[float, ...] = (1.0, 5.0, 15.0)
    """Before each further try; tries that brought something are not counted."""


@dataclass(frozen=True, slots=True)
class Means:
    """What a pull needs beside the runtime."""

    clock: Clock = field(default_factory=SystemClock)
    patience: Patience = field(default_factory=Patience)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    pace_s: float = 0.25
    """Between two words on the same."""
    check: Callable[[str, Say], Awaitable[None]] | None = None
    """Asked once before anything is fetched; raises what stands in the way."""
    gate: asyncio.Semaphore | None = None
    """How many fetch side by side (`images.pulls_at_once`); None for no bound."""


async def pull(reference: str, runtime: ImageRuntime, say: Say, means: Means | None = None) -> ImageReady:
    """Fetch `reference`; the image with its digest.

    Layers that arrived are kept by the Engine, so a further try goes on from there. Raises ImageNotFound, PullFailed
    and its kinds; RuntimeTrouble where the runtime itself does not answer (any more).
    """
    means = means or Means()
    if means.gate is None:
        return await fetched(reference, runtime, say, means)
    if means.gate.locked():
        say({"text": f"{reference}: waits for another pull to end", "ratio": None})
    async with means.gate:
        return await fetched(reference, runtime, say, means)


async def fetched(reference: str, runtime: ImageRuntime, say: Say, means: Means) -> ImageReady:
    """The pull itself, once its turn has come."""
    if means.check is not None:
        await means.check(reference, say)
    waits = list(means.patience.waits_s)
    best = 0
    while True:
        trip = _Trip(reference, runtime, say, means)
        try:
            await trip.make()
            return await ready(reference, runtime)
        except (PullFailed, RuntimeTrouble) as error:  # an Engine that is restarted midway comes back
            if trip.done > best:
                best, waits = trip.done, list(means.patience.waits_s)
            if not error.retryable or not waits:
                raise
            wait = waits.pop(0)
            say({"text": f"{error.text}; trying again in {wait:g} s", "ratio": None})
            await means.sleep(wait)


async def ready(reference: str, runtime: ImageRuntime) -> ImageReady:
    """The image that is here under a name. Raises ImageNotFound."""
    found = await runtime.image(reference)
    if found is None:
        raise ImageNotFound(reference=reference, why="it was pulled and is not here", advice="was it removed just now?")
    return ImageReady(reference, digest_of(found.digests, reference), found.id)


def hold_to_digest(image: ImageReady, wanted: str | None) -> ImageReady:
    """`image`, if it is what was asked for; a name with a digest in it is checked too. Raises DigestMismatch.

    A digest may be the registry's or the engine's own id, which is all that an image from no registry has.
    """
    for digest in (parse(image.reference).digest, wanted):
        if digest is not None and digest not in (image.digest, image.id):
            raise DigestMismatch(reference=image.reference, wanted=digest, found=image.digest or image.id)
    return image


class _Trip:
    """One try, with what it brought."""

    def __init__(self, reference: str, runtime: ImageRuntime, say: Say, means: Means) -> None:
        self.done = 0
        self._reference = reference
        self._runtime = runtime
        self._say = say
        self._means = means

    async def make(self) -> None:
        """Raises PullFailed and its kinds, ImageNotFound, and RuntimeTrouble of an engine that does not answer."""
        self._say({"text": f"pulling {self._reference}: asking the registry", "ratio": None})
        try:
            await self._follow()
        except RuntimeTrouble as error:
            raise self._translated(error) from error

    async def _follow(self) -> None:
        pace, last = Pace(), None
        say = Steady(self._say, self._means.clock, self._means.pace_s)
        silence = self._means.patience.silence_s
        async with closing(self._runtime.pull(self._reference)) as steps:
            try:
                async with asyncio.timeout(silence) as deadline:
                    async for fetched in steps:
                        if (look := _look(fetched)) != last:
                            last = look
                            deadline.reschedule(asyncio.get_running_loop().time() + silence)
                        self.done = fetched.done
                        rate = pace.note(self._means.clock.now().mono, fetched.done)
                        say(describe(self._reference, fetched, rate))
            except TimeoutError as error:
                raise PullStalled(reference=self._reference, seconds=silence, done=Bytes(self.done)) from error
            finally:
                say.flush()

    def _translated(self, error: RuntimeTrouble) -> AgentError:
        """A registry's refusal; an engine that does not answer stays what it is."""
        if not error.code.endswith((".pull_failed", ".pull_refused")):
            return error
        why = str(error.details.get("why") or error.text)
        if any(words in why.lower() for words in ABSENT):
            return ImageNotFound(reference=self._reference, why=why, advice=error.advice)
        kind = PullFailed if error.retryable else PullRefused
        return kind(reference=self._reference, why=why, advice=error.advice)


def _look(fetched: Fetched) -> tuple[object, ...]:
    """What counts as news: bytes, layers and, while it unpacks, the words."""
    return (fetched.done, fetched.total, fetched.layers_done, fetched.text)
