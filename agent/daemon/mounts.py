"""The last look at what a container would see of the host: links are followed just before it is made."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from agent.errors import Refused
from agent.plan.model import Plan
from agent.plan.mounts import is_socket, mounts_of, plain, refuse_mounts


class MountOutside(Refused):
    """A link leads a mount out of what the site allows."""

    code = "policy.mount_outside"
    message = "cannot mount {source}: it leads to {real}, which is not under any folder that the site allows"
    hint = "if that is meant: {line} in agent.yaml"


async def allowed_mounts(plan: Plan) -> None:
    """Raises MountOutside for the first source whose real path is under none of the plan's roots."""
    await asyncio.to_thread(look, plan)


def look(plan: Plan) -> None:
    """The policy's own question once more, about what the paths lead to now."""
    roots = [_real_root(root) for root in plan.mount_roots]
    sockets = any(is_socket(root) for root in plan.mount_roots)
    for mount in mounts_of(plan.container.body if plan.container else {}):
        # the Engine takes `..` by the letters and the kernel follows links first: neither may lead out
        for real in {os.path.realpath(mount.source), os.path.realpath(plain(mount.source))}:
            for barred in refuse_mounts([replace(mount, source=real)], roots, sockets):
                raise MountOutside(source=mount.source, real=real, line=barred.line)


def _real_root(root: str) -> str:
    """A home folder's root ends with a slash, which says that the folder itself is not meant."""
    real = os.path.realpath(root)
    return f"{real}/" if root.endswith("/") and real != "/" else real
