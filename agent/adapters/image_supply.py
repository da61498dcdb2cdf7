"""Where images come from on this host, put together from the site file: pulls, builds, and their locks."""

from __future__ import annotations

import asyncio

from agent.adapters.image_archive import AllSources
from agent.adapters.image_build import EngineBuilder
from agent.adapters.image_context import TarContexts
from agent.adapters.image_locks import DiskLocks
from agent.adapters.image_registry import HttpRegistry
from agent.image.build import Overlays, Workshop
from agent.image.ensure import Supply
from agent.image.port import ImageRuntime
from agent.image.pull import Means
from agent.image.room import Room
from agent.settings.model import Settings


class EngineSupply:
    """For a runtime that is the Docker Engine of the site file. `supply` is what `agent.image.ensure.ensure` takes."""

    def __init__(self, runtime: ImageRuntime, settings: Settings) -> None:
        cache = settings.paths.cache
        limits = settings.images
        self.builder = EngineBuilder(settings.docker.host, settings.docker.timeout_s, limits.build_cpu_shares)
        self.locks = DiskLocks(settings.paths.state / "locks")
        room = Room(HttpRegistry(), self.builder, limits.disk_reserve)
        means = Means(check=room, gate=asyncio.Semaphore(limits.pulls_at_once))
        sources, contexts = AllSources(cache), TarContexts(cache / "contexts")
        workshop = Workshop(runtime, self.builder, sources, contexts, self.locks, means)
        self.supply = Supply(Overlays(workshop), self.locks, means)

    async def close(self) -> None:
        """Let go of the connections."""
        await self.builder.close()
