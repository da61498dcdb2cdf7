"""The last look at what a container would see of the host: links are followed just before it is made."""

from __future__ import annotations

import asyncio
import os

from agent.errors import Refused
from agent.plan.model import Plan
from agent.preflight.mounts import binds_of, outside_roots


class MountOutside(Refused):
    """A link leads a mount out of what the site allows."""

    code = "policy.mount_outside"
    message = "cannot mount {source}: it leads to {real}, which is not under any folder that the site allows"
    hint = "if that is meant: policy: {{mount_roots: [{real}]}} in agent.yaml"


async def allowed_mounts(plan: Plan) -> None:
    """Raises MountOutside for the first source whose real path is under none of the plan's roots."""
    await asyncio.to_thread(look, plan)


def look(plan: Plan) -> None:
    reals = {bind.source: os.path.realpath(bind.source) for bind in binds_of(plan)}
    roots = [os.path.realpath(root) for root in plan.mount_roots]
    for source, real in outside_roots(reals, roots).items():
        raise MountOutside(source=source, real=real)
