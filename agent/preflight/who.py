"""Names for what is in the way: the pid, its command, its container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent.host.process import Process
from agent.host.reading import Known
from agent.preflight.facts import Facts, Neighbour

COMMAND_LENGTH = 120


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that is in the way. Empty words where the host does not show them."""

    pid: int
    name: str = ""
    command: str = ""
    container: str = ""
    """Name of its container, the id's first 12 digits where it has none that we can read."""
    container_id: str | None = None
    state: str = ""

    def __str__(self) -> str:
        where = f" in container {self.container}" if self.container else ""
        return f"pid {self.pid}" + (f" ({self.name})" if self.name else "") + where

    def to_json(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "name": self.name,
            "command": self.command,
            "container": self.container,
            "container_id": self.container_id,
            "state": self.state,
        }

    @property
    def cure(self) -> str:
        """How to end it."""
        if self.state == "D":
            return f"{self} waits in the kernel and cannot be killed: reboot the host"
        return f"docker stop {self.container}" if self.container else f"kill {self.pid}"


async def holder(facts: Facts, pid: int) -> Holder:
    """Who has this pid, as far as the host shows it."""
    looked = await facts.process(pid)
    if not isinstance(looked, Known):
        return Holder(pid)
    process = looked.value
    return Holder(
        pid=pid,
        name=process.name,
        command=command(process),
        container=await container_name(facts, process.container),
        container_id=process.container,
        state=process.state,
    )


async def container_name(facts: Facts, container: str | None) -> str:
    """A container's name by its id; the short id where the runtime does not say, empty for none."""
    if container is None:
        return ""
    neighbours = await facts.neighbours()
    if isinstance(neighbours, Known):
        for neighbour in neighbours.value:
            if neighbour.id == container:
                return neighbour.name
    return container[:12]


def neighbour_words(neighbour: Neighbour) -> str:
    """A container as a sentence carries it."""
    ours = f" (recipe {neighbour.slug})" if neighbour.slug else ""
    return f"container {neighbour.name or neighbour.id[:12]}{ours}"


def command(process: Process) -> str:
    """The command line on one line, cut where it gets long."""
    text = " ".join(process.cmdline) or process.name
    return text if len(text) <= COMMAND_LENGTH else text[: COMMAND_LENGTH - 1] + "…"
