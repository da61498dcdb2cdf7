"""A runtime in memory, for tests of what stands above runtimes. It keeps the same contract as the real ones.

`FakeWorld` is what outlives an agent: containers, images, names. Any number of `FakeRuntime`s look at it. Tests push
the world about: `world.exit(id, code)`, `world.say(id, text)`, `world.vanish(id)`, `world.person_stops(id)`,
`world.trouble = RuntimeUnreachable(…)` (every call raises it until it is None again), `world.hold()`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import Signals
from typing import Any

from agent.clock import Clock, SystemClock
from agent.container.labels import identity_of
from agent.container.log_text import split
from agent.container.port import (
    ContainerSpec,
    ContainerView,
    ImageFacts,
    LogLine,
    PullProgress,
    RunState,
    RuntimeFacts,
    StopRequest,
)
from agent.container.secrets import without_secrets
from agent.container.trouble import ContainerGone, NameTaken, NoImage, PullFailed, RuntimeRejected, StillRuns
from agent.errors import RuntimeTrouble
from tests.container.programs import RUNS, Program


@dataclass
class Box:
    """One container of the fake."""

    view: ContainerView
    spec: ContainerSpec
    program: Program
    text: str = ""
    lines: list[LogLine] = field(default_factory=list)
    stops: list[StopRequest] = field(default_factory=list)
    signals: list[str] = field(default_factory=list)


class FakeWorld:
    """Containers and images, whoever looks at them."""

    def __init__(self, clock: Clock | None = None, images: Iterable[str] = ()) -> None:
        self.clock = clock or SystemClock()
        self.boxes: dict[str, Box] = {}
        self.images: dict[str, ImageFacts] = {name: ImageFacts(id=f"sha256:{name}") for name in images}
        self.registry: dict[str, list[PullProgress]] = {}
        """What can be pulled, with the progress that it makes."""
        self.foreign_names: dict[str, str] = {}
        """Names that somebody else's containers hold, with their ids."""
        self.programs: dict[str, Program] = {}
        """What a command does, by its last word; without an entry it runs until TERM."""
        self.start_errors: dict[str, str] = {}
        """Why a start fails, by container name or by the first word of the command."""
        self.trouble: RuntimeTrouble | None = None
        self.calls: list[tuple[str, ...]] = []
        """Every call that changed something, in order: (`create`, name), (`signal`, id, `TERM`), …"""
        self._numbers = itertools.count(1)
        self._changed = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()
        self._last_at = 0.0

    def hold(self) -> None:
        """From now on no call is answered, until `let_go`."""
        self._free.clear()

    def let_go(self) -> None:
        self._free.set()

    async def admitted(self) -> None:
        """Every call of a runtime comes through here."""
        await self._free.wait()
        if self.trouble is not None:
            raise self.trouble

    async def change(self) -> None:
        """Wait for the next change of anything."""
        await self._changed.wait()

    def say(self, container_id: str, text: str) -> None:
        """The engine writes `text`."""
        box = self.boxes[container_id]
        box.text += text
        box.lines += [LogLine(line, self._time()) for line in split(text)]
        self._tell()

    def exit(self, container_id: str, code: int, *, oom_killed: bool = False) -> None:
        """The engine ends."""
        box = self.boxes[container_id]
        now = self.clock.now().wall
        box.view = replace(
            box.view,
            state=RunState.EXITED,
            pid=None,
            address=None,
            exit_code=code,
            finished_at=now,
            oom_killed=oom_killed,
        )
        self._tell()

    def person_stops(self, container_id: str) -> None:
        """`docker stop` by somebody."""
        self.boxes[container_id].stops.append(StopRequest(self.clock.now().wall, "TERM"))
        self.deliver(container_id, "TERM")

    def vanish(self, container_id: str) -> None:
        """Somebody removes it."""
        del self.boxes[container_id]
        self._tell()

    def add(self, spec: ContainerSpec) -> str:
        """A new container, created."""
        identity = identity_of(spec.body.get("Labels"))
        assert identity is not None, "a body without the agent's labels"
        number = next(self._numbers)
        container_id = f"{number:064x}"
        words = list(spec.body.get("Cmd") or ())
        self.boxes[container_id] = Box(
            view=ContainerView(
                id=container_id,
                name=spec.name,
                slug=identity.slug,
                plan_id=identity.plan_id,
                generation=identity.generation,
                state=RunState.CREATED,
                image=str(spec.body.get("Image", "")),
            ),
            spec=spec,
            program=self.programs.get(words[-1], RUNS) if words else RUNS,
        )
        self._tell()
        return container_id

    def run(self, container_id: str) -> None:
        """Its program begins."""
        box = self.boxes[container_id]
        identity = identity_of(box.spec.body.get("Labels"))
        port = identity.port if identity else None
        box.view = replace(
            box.view,
            state=RunState.RUNNING,
            pid=100_000 + int(container_id, 16),
            started_at=self.clock.now().wall,
            address=("127.0.0.1", port) if port else None,
        )
        self._tell()
        if box.program.output:
            self.say(container_id, box.program.output)
        if box.program.code is not None:
            self.exit(container_id, box.program.code)

    def deliver(self, container_id: str, name: str) -> None:
        """A signal arrives."""
        box = self.boxes[container_id]
        box.signals.append(name)
        if name == "KILL":
            self.exit(container_id, 128 + Signals.SIGKILL)
        elif name == "TERM" and not box.program.ignores_term:
            self.exit(container_id, 0)

    def _time(self) -> float:
        """No two lines have the same time."""
        self._last_at = max(self.clock.now().wall, self._last_at + 1e-6)
        return self._last_at

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class FakeRuntime:
    """One agent's look at a `FakeWorld`."""

    def __init__(self, world: FakeWorld | None = None, kind: str = "docker") -> None:
        self.world = world or FakeWorld()
        self.kind = kind
        self.lags = kind == "docker"

    async def facts(self) -> RuntimeFacts:
        await self.world.admitted()
        return RuntimeFacts(name="fake", version="1", api_version="1.41")

    async def list(self, slug: str | None = None) -> tuple[ContainerView, ...]:
        await self.world.admitted()
        return tuple(box.view for box in self.world.boxes.values() if slug in (None, box.view.slug))

    async def view(self, container_id: str) -> ContainerView | None:
        await self.world.admitted()
        box = self.world.boxes.get(container_id)
        return box.view if box else None

    async def inspect(self, container_id: str) -> Mapping[str, Any] | None:
        await self.world.admitted()
        box = self.world.boxes.get(container_id)
        if box is None:
            return None
        return without_secrets({"Id": container_id, "Config": box.spec.body}, box.spec.body)

    async def create(self, spec: ContainerSpec) -> str:
        await self.world.admitted()
        if await self.name_holder(spec.name) is not None:
            raise NameTaken(action=f"create {spec.name}", why="the name is taken")
        image = spec.body.get("Image")
        if image and image not in self.world.images:
            raise NoImage(action=f"create {spec.name}", why=f"there is no image {image}")
        self.world.calls.append(("create", spec.name))
        return self.world.add(spec)

    async def start(self, container_id: str) -> None:
        await self.world.admitted()
        box = self.world.boxes.get(container_id)
        if box is None:
            raise ContainerGone(action="start it", container=container_id)
        if box.view.state is not RunState.CREATED:
            raise RuntimeRejected(action="start it", why="it was started before")
        self.world.calls.append(("start", container_id))
        first = next(iter(box.spec.body.get("Cmd") or ()), "")
        if error := self.world.start_errors.get(box.view.name) or self.world.start_errors.get(first):
            box.view = replace(box.view, error=error)
            raise RuntimeRejected(action=f"start {box.view.name}", why=error)
        self.world.run(container_id)

    async def signal(self, container_id: str, name: str) -> None:
        await self.world.admitted()
        box = self.world.boxes.get(container_id)
        if box is None or not box.view.running:
            return
        self.world.calls.append(("signal", container_id, name))
        box.stops.append(StopRequest(self.world.clock.now().wall, name))
        self.world.deliver(container_id, name)

    async def remove(self, container_id: str) -> None:
        await self.world.admitted()
        box = self.world.boxes.get(container_id)
        if box is None:
            return
        if box.view.running:
            raise StillRuns(action=f"remove {box.view.name}", why="it runs")
        self.world.calls.append(("remove", container_id))
        self.world.vanish(container_id)

    async def follow(self, container_id: str, since: float | None) -> AsyncIterator[LogLine]:
        await self.world.admitted()
        seen = 0
        while (box := self.world.boxes.get(container_id)) is not None:
            fresh, seen = box.lines[seen:], len(box.lines)
            for line in fresh:
                if since is None or line.at is None or line.at > since:
                    yield line
            if len(box.lines) == seen:
                if box.view.state is RunState.EXITED:
                    return
                await self.world.change()

    async def tail(self, container_id: str, lines: int) -> tuple[LogLine, ...]:
        await self.world.admitted()
        box = self.world.boxes.get(container_id)
        return tuple(box.lines[-lines:]) if box and lines > 0 else ()

    async def save_log(self, container_id: str, path: Path) -> int:
        await self.world.admitted()
        box = self.world.boxes.get(container_id)
        if box is None:
            raise ContainerGone(action="save its log", container=container_id)
        try:
            return path.write_bytes(box.text.encode())
        except OSError as error:
            raise RuntimeTrouble(action="save its log", why=str(error)) from error

    async def stop_requested(self, container_id: str, since: float) -> StopRequest | None:
        await self.world.admitted()
        box = self.world.boxes.get(container_id)
        asked = [stop for stop in box.stops if stop.at >= since] if box else []
        return asked[-1] if asked else None

    async def name_holder(self, name: str) -> ContainerView | str | None:
        await self.world.admitted()
        ours = (box.view for box in self.world.boxes.values() if box.view.name == name)
        return next(ours, None) or self.world.foreign_names.get(name)

    async def image(self, reference: str) -> ImageFacts | None:
        await self.world.admitted()
        return self.world.images.get(reference)

    async def pull(self, reference: str) -> AsyncIterator[PullProgress]:
        await self.world.admitted()
        if reference not in self.world.registry:
            raise PullFailed(action=f"pull {reference}", why="the registry has no such image")
        for progress in self.world.registry[reference]:
            yield progress
        self.world.images[reference] = ImageFacts(id=f"sha256:{reference}")

    async def events(self) -> AsyncIterator[str]:
        known = self._states()
        while True:
            await self.world.change()
            now = self._states()
            for slug in {slug for slug, *_ in known ^ now}:
                yield slug
            known = now

    async def close(self) -> None:
        """Nothing is held."""

    def _states(self) -> set[tuple[str, str, str]]:
        return {(box.view.slug, box.view.id, box.view.state.value) for box in self.world.boxes.values()}
