"""Which evidence is gathered for an incident, and where it comes from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from agent.clock import Clock
from agent.container.port import ContainerView, Runtime
from agent.daemon.observe import Observer
from agent.errors import RuntimeTrouble
from agent.host.model import Host
from agent.host.port import GpuSource, HostSource, Processes
from agent.host.reading import Known, Reading, Unknown
from agent.incident.keep import keep
from agent.incident.model import Case, Gather, Incident
from agent.incident.veil import Veil
from agent.samples.model import Missed
from agent.samples.port import Endpoint, Probe
from agent.samples.recording import write_recording

TAIL_LINES = 5000
METRICS_TIMES = 3
METRICS_GAP_S = 1.0
BRIEF = ("inspect.json", "log.txt", "window.jsonl", "plan.json")
"""For a container that has exited: what its removal would lose. The restart must not wait for the rest."""


class Witnesses:
    """Everything that can be asked about one deployment when it is at fault."""

    def __init__(self, runtime: Runtime, probe: Probe, gpus: GpuSource, host: HostSource, processes: Processes) -> None:
        self._runtime = runtime
        self._probe = probe
        self._gpus = gpus
        self._host = host
        self._processes = processes
        self._veil = Veil()

    def behind(self, veil: Veil) -> Witnesses:
        """The same witnesses, who tell no secret that `veil` knows."""
        self._veil = veil
        return self

    def sources(self, observer: Observer, case: Case, plan: Mapping[str, Any], clock: Clock) -> dict[str, Gather]:
        """File name → how to get it."""
        endpoint = observer.endpoint
        gathered: dict[str, Gather] = {
            "plan.json": lambda: text_of(plan),
            "window.jsonl": lambda: window_of(observer),
            "connections.json": lambda: text_of(plain(observer.sample.connections if observer.sample else None)),
            "processes.json": lambda: self._tree(observer),
            "host.json": lambda: self._host_facts(clock),
        }
        if case.container is not None:
            container = case.container
            gathered["inspect.json"] = lambda: self._inspect(container)
            gathered["log.txt"] = lambda: self._log(container, observer)
        if endpoint is not None and observer.plan.engine is not None and observer.plan.engine.metrics:
            path = observer.plan.engine.metrics
            for number in range(1, METRICS_TIMES + 1):
                gathered[f"metrics-{number}.txt"] = self._metrics(endpoint, path, number)
        return gathered

    async def _inspect(self, container: str) -> str:
        seen = await self._runtime.inspect(container)
        if seen is None:
            raise RuntimeTrouble(action="inspect the container", why="it is not there any more")
        return json.dumps(seen)

    async def _log(self, container: str, observer: Observer) -> str:
        """The runtime's own log; where that cannot be had, the lines that were followed."""
        try:
            return "\n".join(line.text for line in await self._runtime.tail(container, TAIL_LINES))
        except RuntimeTrouble:
            if observer.log_tail:
                return "\n".join(observer.log_tail)
            raise

    def _metrics(self, endpoint: Endpoint, path: str, number: int) -> Gather:
        async def scrape() -> str:
            await asyncio.sleep((number - 1) * METRICS_GAP_S)
            text = await self._probe.metrics(endpoint, path, 5.0)
            if isinstance(text, Missed):
                raise RuntimeTrouble(action="read the metrics", why=text.why)
            return text

        return scrape

    async def _tree(self, observer: Observer) -> str:
        sample = observer.sample
        container = sample.container if sample else None
        pid = container.pid if isinstance(container, ContainerView) else None
        if pid is None:
            return json.dumps([process.to_json() for process in observer.tree])
        reading = await self._processes.tree(pid)
        tree = observer.tree if isinstance(reading, Unknown) else reading.value
        return json.dumps([process.to_json() | {"wchan": await self._wchan(process.pid)} for process in tree])

    async def _wchan(self, pid: int) -> str | None:
        reading: Reading[str] = await self._processes.wchan(pid)
        return reading.value if isinstance(reading, Known) else None

    async def _host_facts(self, clock: Clock) -> str:
        facts, memory, driver, gpus = await asyncio.gather(
            self._host.facts(), self._host.memory(), self._gpus.driver(), self._gpus.read()
        )
        return json.dumps(Host(at=clock.now(), facts=facts, memory=memory, driver=driver, gpus=gpus).to_json())

    async def keep(
        self, shelf: Path, observer: Observer, case: Case, plan: Mapping[str, Any], clock: Clock, *, brief: bool
    ) -> Incident:
        """Gather and write one incident; `brief` only what the removal of the container would lose."""
        sources = self.sources(observer, case, plan, clock)
        if brief:
            sources = {name: source for name, source in sources.items() if name in BRIEF}
        return await keep(shelf, case, sources, hide=self._veil.known)


async def text_of(value: Any) -> str:
    return json.dumps(value)


async def window_of(observer: Observer) -> str:
    """The samples that led to the verdict, as a recording that `agentctl replay` reads."""
    if observer.window is None:
        return ""
    return "\n".join(write_recording(observer.window, observer.plan.engine))


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
