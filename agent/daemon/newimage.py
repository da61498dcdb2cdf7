"""An image that came after the checks: its own parser is asked before anything is stopped for it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from agent.errors import Refused
from agent.image.ensure import to_run
from agent.plan.model import Plan
from agent.preflight.checks import image_arguments
from agent.preflight.model import passed
from agent.wiring import Parts, check


class ArgumentsRefused(Refused):
    """The image that came does not take the launch's words."""

    code = "preflight.image_arguments"
    message = "cannot start {slug}: {found}"


async def parser_takes_it(parts: Parts, plan: Plan, accepted: Collection[str]) -> None:
    """Raises ArgumentsRefused, unless a person has accepted the check."""
    reference = await to_run(plan, parts.images.locks)
    if plan.image is None or reference is None:
        return
    named = replace(plan, image=replace(plan.image, reference=reference))
    for finding in await check(parts, named, None, (image_arguments.CHECK,)):
        if finding.check == image_arguments.ID and not passed((finding,), frozenset(accepted)):
            raise ArgumentsRefused(
                slug=plan.recipe.slug, found=finding.found, advice=finding.hint, findings=[finding.to_json()]
            )
