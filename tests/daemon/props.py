"""What outlives an agent of the stage, and the trap that kills it at any effect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agent.action.codec import operation_from_json, record_from_json, record_to_json
from agent.action.operation import Operation
from agent.action.record import Deployment
from agent.action.store import Event
from agent.clock import Instant
from agent.container.port import ContainerSpec
from tests.container.fake import FakeRuntime, FakeWorld

T = TypeVar("T")


class Killed(BaseException):
    """SIGKILL of the agent: nothing in it may catch this."""


@dataclass
class Trap:
    """Counts every effect twice, before and after, and kills the agent at one of them."""

    at: int = -1
    points: int = 0
    dead: bool = False
    where: str = ""

    def point(self, name: str) -> None:
        if self.dead:
            raise Killed
        self.points += 1
        if self.points == self.at:
            self.dead, self.where = True, name
            raise Killed

    async def around(self, name: str, effect: Callable[[], Awaitable[T]]) -> T:
        self.point(f"before {name}")
        result = await effect()
        self.point(f"after {name}")
        return result


@dataclass
class TurnedClock:
    """Both clocks, moved by the test alone; `ahead` is what the wall clock was set by."""

    mono: float = 1000.0
    ahead: float = 1_800_000_000.0

    def now(self) -> Instant:
        return Instant(self.mono, self.mono + self.ahead)


@dataclass
class Disk:
    """A store as its texts: a kill leaves the old or the new."""

    records: dict[str, str] = field(default_factory=dict)
    plans: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    operations: dict[str, str] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    rebuilt: str | None = None
    broken: Exception | None = None
    """Raised by every write while it is set (a full disk)."""


class DiskStore:
    """A `Store` on a `Disk`, with a trap around every write."""

    def __init__(self, disk: Disk, trap: Trap) -> None:
        self._disk = disk
        self._trap = trap

    @property
    def rebuilt(self) -> str | None:
        return self._disk.rebuilt

    async def _write(self, name: str, effect: Callable[[], T]) -> T:
        async def done() -> T:
            if self._disk.broken is not None:
                raise self._disk.broken
            return effect()

        return await self._trap.around(name, done)

    async def load(self) -> tuple[Deployment, ...]:
        return tuple(record_from_json(json.loads(text)) for _, text in sorted(self._disk.records.items()))

    async def save(self, record: Deployment) -> None:
        text = json.dumps(record_to_json(record))
        await self._write("save", lambda: self._disk.records.update({record.slug: text}))

    async def forget(self, slug: str) -> None:
        await self._write("forget", lambda: self._disk.records.pop(slug, None))

    async def save_plan(self, slug: str, plan: Mapping[str, Any]) -> None:
        row = (slug, json.dumps(plan), float(len(self._disk.plans)))
        await self._write("save_plan", lambda: self._disk.plans.update({plan["plan_id"]: row}))

    async def plan(self, plan_id: str) -> Mapping[str, Any] | None:
        row = self._disk.plans.get(plan_id)
        return json.loads(row[1]) if row else None

    async def history(self, slug: str) -> tuple[Mapping[str, Any], ...]:
        rows = sorted((at, plan_id) for plan_id, (owner, _, at) in self._disk.plans.items() if owner == slug)
        return tuple({"plan_id": plan_id, "at": at} for at, plan_id in rows)

    async def save_operation(self, operation: Operation) -> None:
        text = json.dumps(asdict(operation))
        await self._write("save_operation", lambda: self._disk.operations.update({operation.id: text}))

    async def operation(self, operation_id: str) -> Operation | None:
        text = self._disk.operations.get(operation_id)
        return operation_from_json(json.loads(text)) if text else None

    async def operations(self, slug: str | None = None, *, open_only: bool = False) -> tuple[Operation, ...]:
        every = [operation_from_json(json.loads(text)) for text in self._disk.operations.values()]
        return tuple(one for one in every if slug in (None, one.slug) and not (open_only and one.over))

    async def add_event(self, event: Event) -> Event:
        kept = replace(event, seq=len(self._disk.events) + 1)
        await self._write("add_event", lambda: self._disk.events.append(kept))
        return kept

    async def events(self, slug: str | None = None, *, after: int = 0, limit: int = 200) -> tuple[Event, ...]:
        found = [one for one in self._disk.events if one.seq > after and slug in (None, one.slug)]
        return tuple(found[-limit:])

    async def learn(self, slug: str, figures: Mapping[str, float]) -> None:
        await self._write("learn", lambda: self._disk.figures.setdefault(slug, {}).update(figures))

    async def learned(self, slug: str) -> Mapping[str, float]:
        return dict(self._disk.figures.get(slug, {}))

    async def close(self) -> None:
        """Nothing is held."""


class TrappedRuntime(FakeRuntime):
    """The fake with a trap around everything that changes something."""

    def __init__(self, world: FakeWorld, trap: Trap, hangs: Collection[str] = ()) -> None:
        super().__init__(world)
        self.trap = trap
        self.hangs = hangs

    async def create(self, spec: ContainerSpec) -> str:
        if spec.slug in self.hangs:
            await asyncio.Event().wait()
        return await self.trap.around("create", partial(FakeRuntime.create, self, spec))

    async def start(self, container_id: str) -> None:
        await self.trap.around("start", partial(FakeRuntime.start, self, container_id))

    async def signal(self, container_id: str, name: str) -> None:
        await self.trap.around(f"signal {name}", partial(FakeRuntime.signal, self, container_id, name))

    async def save_log(self, container_id: str, path: Path) -> int:
        return await self.trap.around("save_log", partial(FakeRuntime.save_log, self, container_id, path))

    async def remove(self, container_id: str) -> None:
        await self.trap.around("remove", partial(FakeRuntime.remove, self, container_id))
