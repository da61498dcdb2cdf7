"""Which evidence is gathered for an incident, and where it comes from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from agent.clock import Clock
from agent.container.port import ContainerView, Runtime
from agent.daemon.observe import Observer
from agent.errors import AgentError, RuntimeTrouble
from agent.host.model import Host
from agent.host.port import GpuSource, HostSource, KernelLog, Processes, Sockets
from agent.host.process import Process
from agent.host.reading import Known, Reading, Unknown
from agent.incident.keep import DEADLINE_S, keep
from agent.incident.model import Case, Gather, Incident
from agent.incident.veil import Veil
from agent.samples.model import Missed
from agent.samples.port import Endpoint, Probe
from agent.samples.recording import write_recording

TAIL_LINES = 5000
METRICS_TIMES = 3
METRICS_GAP_S = 1.0
MOST_STACKS = 16
BRIEF = ("inspect.json", "log.txt", "window.jsonl", "plan.json")
"""For a container that has exited: what its removal would lose. The restart must not wait for the rest."""
BRIEF_S = 10.0


@dataclass(frozen=True, slots=True)
class Means:
    """Where witnesses look."""

    runtime: Runtime
    probe: Probe
    gpus: GpuSource
    host: HostSource
    processes: Processes
    sockets: Sockets
    kernel: KernelLog
    stacks: Callable[[int], Awaitable[str]]
    """The Python stacks of a process; raises an AgentError that says why there are none."""
    recipe: Callable[[], Awaitable[bytes]]
    """The document that the plan was made from."""
    veil: Veil


class Witnesses:
    """Everything that can be asked about one deployment when it is at fault."""

    def __init__(self, means: Means, observer: Observer) -> None:
        self._means = means
        self._observer = observer

    async def keep(self, shelf: Path, case: Case, plan: Mapping[str, Any], clock: Clock, *, brief: bool) -> Incident:
        """Gather and write one incident; `brief` only what the removal of the container would lose."""
        sources = self.sources(case, plan, clock)
        if brief:
            sources = {name: source for name, source in sources.items() if name in BRIEF}
        return await keep(shelf, case, sources, BRIEF_S if brief else DEADLINE_S, hide=self._means.veil.text)

    def sources(self, case: Case, plan: Mapping[str, Any], clock: Clock) -> dict[str, Gather]:
        """File name → how to get it."""
        observer, means = self._observer, self._means
        gathered: dict[str, Gather] = {
            "plan.json": lambda: text_of(plan),
            "recipe.json": means.recipe,
            "window.jsonl": lambda: window_of(observer),
            "connections.json": self._connections,
            "processes.json": self._tree,
            "stacks.txt": self._stacks,
            "host.json": lambda: self._host_facts(clock),
            "kernel.txt": self._kernel,
        }
        if case.container is not None:
            container = case.container
            gathered["inspect.json"] = lambda: self._inspect(container)
            gathered["log.txt"] = lambda: self._log(container)
        endpoint, engine = observer.endpoint, observer.plan.engine
        if endpoint is not None and engine is not None and engine.metrics:
            for number in range(1, METRICS_TIMES + 1):
                gathered[f"metrics-{number}.txt"] = self._metrics(endpoint, engine.metrics, number)
        return gathered

    async def _inspect(self, container: str) -> str:
        seen = await self._means.runtime.inspect(container)
        if seen is None:
            raise RuntimeTrouble(action="inspect the container", why="it is not there any more")
        return json.dumps(seen)

    async def _log(self, container: str) -> str:
        """The runtime's own log; where that cannot be had, the lines that were followed."""
        try:
            return "\n".join(line.text for line in await self._means.runtime.tail(container, TAIL_LINES))
        except RuntimeTrouble:
            if self._observer.log_tail:
                return "\n".join(self._observer.log_tail)
            raise

    def _metrics(self, endpoint: Endpoint, path: str, number: int) -> Gather:
        async def scrape() -> str:
            await asyncio.sleep((number - 1) * METRICS_GAP_S)
            text = await self._means.probe.metrics(endpoint, path, 5.0)
            if isinstance(text, Missed):
                raise RuntimeTrouble(action="read the metrics", why=text.why)
            return text

        return scrape

    async def _connections(self) -> str:
        """Every connection on the engine's port with its state and its other end, and what the last sample counted."""
        sample, engine, pid = self._observer.sample, self._observer.plan.engine, self._pid()
        counted = plain(sample.connections if sample else None)
        if engine is None or engine.port is None or pid is None:
            return json.dumps({"counted": counted, "unknown": "the engine's port or its process is not known"})
        rows = await self._means.sockets.table(pid, engine.port)
        if isinstance(rows, Unknown):
            return json.dumps({"counted": counted, "unknown": rows.reason})
        return json.dumps({"counted": counted, "rows": plain(rows.value)})

    def _pid(self) -> int | None:
        container = self._observer.sample.container if self._observer.sample else None
        return container.pid if isinstance(container, ContainerView) else None

    async def _processes(self) -> Sequence[Process]:
        """As they are now, else as they were last seen."""
        pid = self._pid()
        reading = await self._means.processes.tree(pid) if pid is not None else None
        return reading.value if isinstance(reading, Known) else self._observer.tree

    async def _tree(self) -> str:
        tree = await self._processes()
        return json.dumps([process.to_json() | {"wchan": await self._wchan(process.pid)} for process in tree])

    async def _wchan(self, pid: int) -> str | None:
        reading: Reading[str] = await self._means.processes.wchan(pid)
        return reading.value if isinstance(reading, Known) else None

    async def _stacks(self) -> str:
        """Of every Python process of the engine, side by side; one that cannot be read costs the others nothing."""
        python = [one for one in await self._processes() if runs_python(one) and not one.ended][:MOST_STACKS]
        if not python:
            raise RuntimeTrouble(action="read Python stacks", why="no process of the engine runs Python")
        found = await asyncio.gather(*(self._means.stacks(one.pid) for one in python), return_exceptions=True)
        parts, failed = [], []
        for process, stack in zip(python, found, strict=True):
            if isinstance(stack, AgentError):
                failed.append(stack)
            elif isinstance(stack, BaseException):
                raise stack
            said = stack.text if isinstance(stack, AgentError) else stack
            parts.append(f"== pid {process.pid} {process.name} (state {process.state}) ==\n{said}")
        if len(failed) == len(python):
            raise failed[0]
        return "\n".join(parts)

    async def _kernel(self) -> str:
        reading = await self._means.kernel.lines()
        if isinstance(reading, Unknown):
            raise RuntimeTrouble(action="read the kernel's log", why=reading.reason)
        return "\n".join(reading.value) or "nothing of the driver, of killed processes or of hung tasks is in the ring"

    async def _host_facts(self, clock: Clock) -> str:
        means = self._means
        facts, memory, driver, gpus = await asyncio.gather(
            means.host.facts(), means.host.memory(), means.gpus.driver(), means.gpus.read()
        )
        return json.dumps(Host(at=clock.now(), facts=facts, memory=memory, driver=driver, gpus=gpus).to_json())


def runs_python(process: Process) -> bool:
    """By its program's name; engines rename their processes (`VLLM::EngineCore`), and those are Python's too."""
    program = process.cmdline[0].rpartition("/")[2] if process.cmdline else process.name
    return program.startswith(("python", "pypy", "VLLM::", "sglang::"))


async def text_of(value: Any) -> str:
    return json.dumps(value)


async def window_of(observer: Observer) -> str:
    """The samples that led to the verdict, as a recording that `agentctl replay` reads."""
    if observer.window is None:
        raise RuntimeTrouble(action="write the window", why="no sample has been taken")
    return "\n".join(write_recording(observer.window, observer.plan.engine, observer.plan.watch))


def plain(value: Any) -> Any:
    """Dataclasses, enums and tuples as JSON carries them; a source that failed keeps its reason."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
