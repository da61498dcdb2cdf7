"""Locks of plans as files: one JSON document a plan, there whole or not at all."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from agent.adapters.git_sources import held
from agent.errors import AgentError
from agent.image.lock import Lock, from_json


class LockNotKept(AgentError):
    """The state folder cannot be written."""

    code = "image.lock"
    message = "cannot keep what was found for plan {plan_id} in {folder}: {why}"
    hint = "create the folder for the agent's user with room to write, or set paths.state in agent.yaml"


class DiskLocks:
    """Below `folder` (`<state>/locks`)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self, plan_id: str) -> Lock | None:
        return await asyncio.to_thread(_read, self._path(plan_id))

    async def write(self, plan_id: str, lock: Lock) -> None:
        try:
            await asyncio.to_thread(_write, self._path(plan_id), json.dumps(lock.to_json(), indent=1))
        except OSError as error:
            why = error.strerror or error
            raise LockNotKept(plan_id=plan_id, folder=self._folder, why=why) from error

    async def forget(self, plan_id: str) -> None:
        await asyncio.to_thread(self._path(plan_id).unlink, missing_ok=True)

    async def all(self) -> Mapping[str, Lock]:
        def read() -> dict[str, Lock]:
            found = {path.stem: _read(path) for path in sorted(self._folder.glob("*.json"))}
            return {plan_id: lock for plan_id, lock in found.items() if lock is not None}

        return await asyncio.to_thread(read)

    def held(self, name: str) -> AbstractAsyncContextManager[None]:
        return held(self._folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '-', name)}.lock")

    def _path(self, plan_id: str) -> Path:
        return self._folder / f"{re.sub(r'[^A-Za-z0-9_-]', '-', plan_id)}.json"


def _read(path: Path) -> Lock | None:
    try:
        return from_json(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
