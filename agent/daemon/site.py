"""The site file while the agent runs: read again on SIGHUP, taken up where it is good, said where it is not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from agent.action.store import Event, Store
from agent.adapters.sd_notify import SdNotify
from agent.clock import Clock, timestamp
from agent.daemon import log as logging_set_up
from agent.daemon.doors import Doors
from agent.errors import AgentError
from agent.settings.layers import flatten
from agent.settings.load import Loaded, load
from agent.settings.model import Settings
from agent.wiring import Parts

log = structlog.get_logger()


def from_start(old: Settings, new: Settings) -> Settings:
    """`new`, with what only a start can take up as it was in `old`: places, the runtime's socket and the port."""
    listen = new.listen.model_copy(update={"address": old.listen.address, "port": old.listen.port})
    kept = {name: getattr(old.logs, name) for name in ("form", "engine_max_size", "engine_max_files")}
    parts = {"paths": old.paths, "docker": old.docker, "runtime": old.runtime}
    return new.model_copy(update={**parts, "listen": listen, "logs": new.logs.model_copy(update=kept)})


def differing(one: Settings, other: Settings) -> list[str]:
    """Dotted keys whose values differ."""
    left, right = (
        {key: value for key, value in flatten(settings.model_dump(mode="json")) if value != {}}
        for settings in (one, other)
    )
    return sorted(key for key in left.keys() | right.keys() if left.get(key) != right.get(key))


@dataclass(slots=True)
class SiteState:
    """What is in force, for `/v1/host`."""

    files: tuple[Path, ...] = ()
    loaded: float = 0.0
    refused: str | None = None
    needs_restart: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "files": [str(file) for file in self.files],
            "loaded": timestamp(self.loaded),
            "refused": self.refused,
            "needs_restart": self.needs_restart,
        }


@dataclass(frozen=True, slots=True)
class Site:
    """Takes up new site files. `told` passes an event on to who listens."""

    path: Path | None
    parts: Parts
    doors: Doors
    store: Store
    clock: Clock
    told: Callable[[Event], None]
    notify: SdNotify
    state: SiteState
    on_taken: Callable[[], Awaitable[None]]
    """Called when the settings in force are new ones."""

    async def reload(self) -> None:
        """For the service manager, too: `systemctl reload` returns when this is done."""
        self.notify.reloading()
        try:
            await self._read()
        finally:
            self.notify.say("READY=1")

    async def _read(self) -> None:
        try:
            loaded = await asyncio.to_thread(load, self.path, os.environ)
            await self.doors.take(loaded.settings)
        except AgentError as error:
            self.state.refused = error.text
            log.warning("site_file_refused", reason=error.text, kept="the settings before")
            await self._tell(f"refused the site file: {error.text}", {"refused": error.as_dict()})
            return
        await self._take(loaded)

    async def _take(self, loaded: Loaded) -> None:
        before = self.parts.settings
        after = from_start(before, loaded.settings)
        changed, left = differing(before, after), differing(after, loaded.settings)
        self.parts.take(after)
        await self.on_taken()
        await asyncio.to_thread(self.parts.learn_secrets)
        logging_set_up.set_level(after.logs.level)
        self.state.files, self.state.loaded = loaded.files, self.clock.now().wall
        self.state.refused, self.state.needs_restart = None, left
        log.info("site_file_read", changed=changed, needs_restart=left)
        sentence = f"took up the site file: {', '.join(changed) or 'nothing changed'}"
        later = f"; only a restart of the agent takes up {', '.join(left)}" if left else ""
        await self._tell(sentence + later, {"changed": changed, "needs_restart": left})

    async def _tell(self, text: str, data: Mapping[str, Any]) -> None:
        event = Event(self.clock.now().wall, "", "agent", text, data)
        try:
            self.told(await self.store.add_event(event))
        except AgentError as error:  # a full disk costs the event, never the settings
            log.warning("event_lost", text=text, reason=error.text)
