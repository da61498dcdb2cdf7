"""Plans with an image, and a runtime whose pulls a test scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import fields
from typing import Any

from agent.container.port import ImageFacts, PullProgress
from agent.container.trouble import PullFailed
from agent.plan.model import ImagePlan, Plan, RecipeRef
from agent.plan.watch import Span, Watch

DIGEST = "sha256:" + "a" * 64


def plan_of(image: ImagePlan | None, slug: str = "tiny", plan_id: str = "p1") -> Plan:
    """A plan whose image is this one."""
    others = ("backoff", "budget", "derived", "warnings")
    spans: dict[str, Any] = {one.name: Span(None, "") for one in fields(Watch) if one.name not in others}
    return Plan(
        plan_id=plan_id,
        recipe=RecipeRef(slug, 1, None, None, "test"),
        runtime="docker",
        engine=None,
        image=image,
        container=None,
        requirements=(),
        watch=Watch(**spans),
        claims=(),
        missing=(),
        unapplied=(),
        warnings=(),
        origins={},
    )


def progress(done: int, total: int | None = 100, layers_done: int = 0, layers: int = 2, text: str = "") -> PullProgress:
    return PullProgress(done, total, layers_done, layers, text)


class Heard:
    """What was said, in order."""

    def __init__(self) -> None:
        self.all: list[Mapping[str, Any]] = []

    def __call__(self, progress: Mapping[str, Any]) -> None:
        self.all.append(progress)

    @property
    def texts(self) -> list[str]:
        return [str(one["text"]) for one in self.all]


class Pulls:
    """A runtime of images alone. Each pull plays the next script: progress, errors to raise, events to wait for."""

    def __init__(self, *scripts: list[PullProgress | Exception | asyncio.Event]) -> None:
        self.scripts = list(scripts)
        self.images: dict[str, ImageFacts] = {}
        self.result = ImageFacts(id="sha256:" + "1" * 64, digests=(f"reg.example/tiny@{DIGEST}",))
        self.pulled: list[str] = []
        self.closed = 0

    async def image(self, reference: str) -> ImageFacts | None:
        return self.images.get(reference)

    async def pull(self, reference: str) -> AsyncIterator[PullProgress]:
        self.pulled.append(reference)
        try:
            for step in self.scripts.pop(0):
                if isinstance(step, PullProgress):
                    yield step
                elif isinstance(step, asyncio.Event):
                    await step.wait()
                else:
                    raise step
            self.images[reference] = self.result
        finally:
            self.closed += 1


class Denied(PullFailed):
    """A refusal that stays."""

    retryable = False


def broken(why: str = "unexpected EOF") -> PullFailed:
    """A pull that fails, as a runtime says it."""
    return PullFailed(action="pull it", why=why, advice="try again")
