"""Images that are carried to a host without a registry: the image as `docker load` takes it, and its lock beside it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from agent.errors import InvalidInput
from agent.image.ensure import found
from agent.image.lock import Lock, Locks, from_json
from agent.image.port import Builder, ImageReady, ImageRuntime
from agent.image.reference import parse
from agent.image.trouble import DigestMismatch, ImageError


class NotCarried(ImageError):
    """Only an image with a name arrives under one."""

    code = "image.not_carried"
    message = "cannot save {reference}: an image that is named by digest loses its name on the way"
    hint = "name it by tag; its digest stands in the lock, and its id is checked when it is loaded"
    http_status = 422


def lock_beside(path: Path) -> Path:
    """`FILE.lock.json`."""
    return path.with_name(f"{path.name}.lock.json")


async def save(plan_id: str, lock: Lock, builder: Builder, path: Path) -> int:
    """Bytes of the image in `path`. Raises NotCarried, and what the builder raises."""
    if parse(lock.image.reference).digest is not None:
        raise NotCarried(reference=lock.image.reference)
    size = await builder.save(lock.image.reference, path)
    text = json.dumps({"plan_id": plan_id, "lock": lock.to_json()}, indent=1)
    await asyncio.to_thread(lock_beside(path).write_text, text)
    return size


async def load(path: Path, runtime: ImageRuntime, builder: Builder, locks: Locks) -> ImageReady:
    """The image, held against its lock, which holds here from now on. Raises InvalidInput, DigestMismatch."""
    plan_id, lock = await asyncio.to_thread(_read, lock_beside(path))
    await builder.load(path)
    here = await found(lock.image.reference, runtime)
    if here is None or here.id != lock.image.id:
        is_here = here.id if here is not None else "nothing"
        raise DigestMismatch(reference=lock.image.reference, wanted=lock.image.id, found=is_here)
    await locks.write(plan_id, lock)
    return here


def _read(path: Path) -> tuple[str, Lock]:
    try:
        data = json.loads(path.read_text())
        return str(data["plan_id"]), from_json(data["lock"])
    except FileNotFoundError as error:
        raise InvalidInput(what=str(path), why="there is no lock beside the image") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(what=str(path), why=f"it is no lock: {error}") from error
