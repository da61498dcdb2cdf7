"""What the stage's engines and its host do."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from agent.container.port import ContainerView
from agent.engines.model import Request
from agent.host.gpu import Gpu
from agent.host.model import Driver, HostMemory
from agent.host.process import Listener, PortConnections, Process
from agent.host.reading import Known, Reading, Unknown
from agent.samples.model import Health, Miss, Missed
from agent.samples.port import Answer, Endpoint

if TYPE_CHECKING:
    from tests.daemon.stage import Stage

T = TypeVar("T")
TOKEN = json.dumps({"choices": [{"text": "a", "finish_reason": "length"}], "usage": {"completion_tokens": 1}})


@dataclass
class Behaviour:
    """What an engine does. `mode` by generation: `ready`, `loading`, `stalled` (one request that never moves, and no
    answer to others), `zombie` (one that nobody waits for, and answers to others), `waiting` (one that is never
    let in).
    """

    mode: Callable[[int], str] = lambda _: "ready"
    clients: int = 0
    asked: list[str] = field(default_factory=list)
    """Paths of the requests that came."""


class StageProbe:
    """HTTP to the stage's engines."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def _engine(self, at: Endpoint) -> tuple[str, Behaviour]:
        for box in self._stage.world.boxes.values():
            if box.view.address == (at.host, at.port):
                behaviour = self._stage.behaviours.setdefault(box.view.slug, Behaviour())
                return behaviour.mode(box.view.generation), behaviour
        return "refused", Behaviour()

    async def ask(self, at: Endpoint, request: Request, timeout_s: float) -> Answer | Missed:
        mode, behaviour = self._engine(at)
        if mode == "refused":
            return Missed(Miss.REFUSED, "nobody listens")
        behaviour.asked.append(request.path)
        if mode in ("stalled", "loading"):
            return Missed(Miss.TIMEOUT, f"no answer in {timeout_s:.0f} s")
        return Answer(200, "{}" if request.path.startswith("/is_") else TOKEN, 0.1)

    async def metrics(self, at: Endpoint, path: str, timeout_s: float) -> str | Missed:
        mode, _ = self._engine(at)
        if mode in ("refused", "loading"):
            return Missed(Miss.REFUSED, "nobody listens")
        running, waiting = int(mode in ("stalled", "zombie")), int(mode == "waiting")
        labels = '{model_name="m",engine="0"}'
        return (
            f"vllm:num_requests_running{labels} {running}\nvllm:num_requests_waiting{labels} {waiting}\n"
            f"vllm:kv_cache_usage_perc{labels} {running / 10}\nvllm:generation_tokens_total{labels} 100\n"
            f"vllm:prompt_tokens_total{labels} 100\nvllm:estimated_flops_per_gpu_total{labels} 5\n"
        )

    async def health(self, at: Endpoint, path: str, timeout_s: float) -> Health | Missed:
        mode, _ = self._engine(at)
        return Missed(Miss.REFUSED, "nobody listens") if mode in ("refused", "loading") else Health(200, 0.01)

    async def close(self) -> None:
        """Nothing is held."""


class StageHost:
    """Processes, sockets and cards of the stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.orphans: dict[int, Process] = {}

    def _known(self, value: T) -> Known[T]:
        return Known(value, self._stage.clock.now())

    def _box(self, pid: int) -> ContainerView | None:
        return next((box.view for box in self._stage.world.boxes.values() if box.view.pid == pid), None)

    async def look(self, pid: int) -> Reading[Process]:
        view = self._box(pid)
        found = process(pid) if view is not None else self.orphans.get(pid)
        return self._known(found) if found is not None else Unknown("there is no such process")

    async def tree(self, pid: int) -> Reading[tuple[Process, ...]]:
        return self._known((process(pid),)) if self._box(pid) else Unknown("there is no such process")

    async def in_container(self, container: str) -> Reading[tuple[Process, ...]]:
        return self._known(())

    async def wchan(self, pid: int) -> Reading[str]:
        return Unknown("not on this stage")

    async def oom_kills(self, pid: int) -> Reading[int]:
        return self._known(0)

    async def connections(self, pid: int, port: int) -> Reading[PortConnections]:
        view = self._box(pid)
        behaviour = self._stage.behaviours.get(view.slug, Behaviour()) if view else Behaviour()
        busy = view is not None and behaviour.mode(view.generation) == "stalled"
        return self._known(PortConnections(behaviour.clients or int(busy), 0, 0))

    async def listeners(self, port: int, pid: int | None = None) -> Reading[tuple[Listener, ...]]:
        return self._known(())

    async def read(self) -> Reading[tuple[Gpu, ...]]:
        return Unknown("this stage has no cards")

    async def memory(self) -> Reading[HostMemory]:
        return Unknown("this stage has no memory to read")

    async def driver(self) -> Driver:
        none: Unknown = Unknown("this stage has no driver")
        return Driver(version=none, kernel_module=none, userland=none, cuda=none)


class StageMemory:
    """The stage's /dev/shm: name and inode of each file, and which process has it mapped."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.there: dict[tuple[str, int], int | None] = {}

    async def files(self) -> Reading[tuple[int, ...]]:
        return Known(tuple(inode for _, inode in self.there), self._stage.clock.now())

    async def mapped(self, processes: Collection[int]) -> Reading[tuple[tuple[str, int], ...]]:
        found = tuple(file for file, pid in self.there.items() if pid in processes)
        return Known(found, self._stage.clock.now())

    async def unused(self, files: Collection[tuple[str, int]]) -> Reading[tuple[tuple[str, int], ...]]:
        alive = {box.view.pid for box in self._stage.world.boxes.values()}
        found = tuple(file for file in files if file in self.there and self.there[file] not in alive)
        return Known(found, self._stage.clock.now())

    async def remove(self, files: Collection[tuple[str, int]]) -> str:
        async def go() -> None:
            for file in files:
                self.there.pop(file, None)

        await self._stage.trap.around("sweep", go)
        return ""


def process(pid: int) -> Process:
    none: Unknown = Unknown("not on this stage")
    return Process(
        pid=pid, ppid=1, state="S", start_ticks=pid, name="engine", cmdline=("engine",), cpu_seconds=0.0, threads=1,
        uid=none, cgroup=none, container=None,
    )  # fmt: skip
