"""A workshop with a builder in memory: real git sources and real contexts, an Engine that only looks as if."""

from __future__ import annotations

import asyncio
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from agent.adapters.image_archive import AllSources
from agent.adapters.image_context import TarContexts
from agent.adapters.image_locks import DiskLocks
from agent.container.port import ImageFacts
from agent.image.build import Overlays, Workshop
from agent.image.port import BuildEvent, InstructionFailed, Made
from agent.image.trouble import BaseLacks
from tests.image.plans import Pulls

BASE = "reg.example/vllm:1"


class FakeBuilder:
    """Builds by reading the Dockerfile. `fails`: words of an instruction → what the Engine says."""

    def __init__(self, runtime: Pulls) -> None:
        self.runtime = runtime
        self.built: list[str] = []
        self.open = 0
        """Connections that build."""
        self.contexts: list[dict[str, bytes]] = []
        self.fails: dict[str, tuple[str, str]] = {}
        """Words of an instruction → its output, and what the Engine says."""
        self.trouble: list[Exception] = []
        self.packages: dict[str, str] = {"vllm": "/py/site-packages/vllm"}
        self.gate: asyncio.Event | None = None
        self.user_of: dict[str, str] = {}

    async def places(self, image: str, packages: Sequence[str]) -> Mapping[str, str]:
        found = {"{site_packages}": "/py/site-packages"}
        for name in packages:
            if name not in self.packages:
                raise BaseLacks(what=name, reference=image, why=f"it has no package {name}")
            found[f"{{package:{name}}}"] = self.packages[name]
        return found

    async def user(self, image: str) -> str:
        return self.user_of.get(image, "")

    async def build(self, context: IO[bytes], tag: str) -> AsyncIterator[BuildEvent]:
        self.open += 1
        try:
            async for event in self._run(context, tag):
                yield event
        finally:
            self.open -= 1

    async def _run(self, context: IO[bytes], tag: str) -> AsyncGenerator[BuildEvent, None]:
        files = unpacked(context)
        self.contexts.append(files)
        lines = [line for line in files["Dockerfile"].decode().splitlines() if line and not line.startswith("#")]
        for number, line in enumerate(lines, 1):
            yield BuildEvent(number, len(lines))
            if self.gate is not None:
                await self.gate.wait()
            for words, (output, why) in self.fails.items():
                if words in line:
                    yield BuildEvent(number, len(lines), output=output)
                    raise InstructionFailed(why)
            if self.trouble and line.startswith("RUN"):
                raise self.trouble.pop(0)
        self.built.append(tag)
        self.runtime.images[tag] = ImageFacts(id=f"sha256:{tag}")

    async def made(self) -> tuple[Made, ...]:
        return ()

    async def remove(self, image: str) -> bool:
        return self.runtime.images.pop(image, None) is not None

    async def save(self, image: str, path: Path) -> int:
        return path.write_bytes(image.encode())

    async def load(self, path: Path) -> None:
        name = path.read_bytes().decode()
        self.runtime.images[name] = ImageFacts(id=f"sha256:{name}")


def unpacked(context: IO[bytes]) -> dict[str, bytes]:
    with tarfile.open(fileobj=context) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {member.name: file.read() for member in members if (file := archive.extractfile(member))}


class Bench:
    """Overlays over a fake Engine that has the base image."""

    def __init__(self, folder: Path) -> None:
        self.runtime = Pulls()
        self.runtime.images[BASE] = ImageFacts(id="sha256:base", digests=(f"reg.example/vllm@sha256:{'b' * 64}",))
        self.builder = FakeBuilder(self.runtime)
        self.locks = DiskLocks(folder / "locks")
        self.slept: list[float] = []
        self.sources = AllSources(folder / "cache")
        self.contexts = TarContexts(folder / "contexts")
        self.overlays = self.again()

    def again(self) -> Overlays:
        """Another agent on the same host."""
        return Overlays(
            Workshop(
                self.runtime, self.builder, self.sources, self.contexts, self.locks, waits_s=(1.0,), sleep=self._sleep
            )
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def source(name: str, url: str, commit: str, **more: Any) -> dict[str, Any]:
    return {"source": {"name": name, "git": url, "commit": commit, **more}}
