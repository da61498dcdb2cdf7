"""What the agent asks of a host. A reading that fails is an answer, never an exception; none outlasts its bound."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from agent.host.gpu import Gpu, GpuEvent, Shares
from agent.host.model import DiskSpace, Driver, HostFacts, HostMemory
from agent.host.process import Connection, Holders, Listener, PortConnections, Process
from agent.host.reading import Known, Reading


class GpuSource(Protocol):
    """The host's cards, through one long-lived owner of NVML."""

    async def read(self) -> Reading[tuple[Gpu, ...]]:
        """All cards in NVML's order, read now. Unknown when NVML is missing, fails or hangs."""
        ...

    def last(self) -> Known[tuple[Gpu, ...]] | None:
        """The last good reading, however old (its `at` says); None when there was none."""
        ...

    async def shares(self, uuids: Collection[str]) -> Mapping[str, Reading[Shares]]:
        """Who computed of late on each of these cards. It is not read with the rest, since few ask for it."""
        ...

    async def driver(self) -> Driver: ...

    def subscribe(self, listener: Callable[[GpuEvent], None]) -> Callable[[], None]:
        """Calls `listener` on the event loop for each event of any card; the returned function ends that."""
        ...

    async def close(self) -> None:
        """Lets go of NVML within a second or two, also when a call hangs in it."""
        ...


class HostSource(Protocol):
    """The host itself."""

    async def facts(self) -> HostFacts: ...

    async def memory(self) -> Reading[HostMemory]: ...

    async def disk(self, path: str) -> Reading[DiskSpace]:
        """The file system of `path`, or of its nearest parent that exists."""
        ...


class Processes(Protocol):
    """Processes of the host."""

    async def look(self, pid: int) -> Reading[Process]:
        """That process; Unknown when there is none."""
        ...

    async def tree(self, pid: int) -> Reading[tuple[Process, ...]]:
        """The process and all its descendants, parents first; Unknown when it is gone."""
        ...

    async def in_container(self, container: str) -> Reading[tuple[Process, ...]]:
        """All processes whose cgroup carries that container's id (64 hex digits), orphans too; may be none."""
        ...

    async def wchan(self, pid: int) -> Reading[str]:
        """Where in the kernel it waits (wants CAP_SYS_PTRACE); empty when it runs."""
        ...

    async def gpu_holders(self) -> Reading[Holders]:
        """Who has /dev/nvidia* open, NVML's knowledge apart."""
        ...

    async def oom_kills(self, pid: int) -> Reading[int]:
        """Kills for memory in the cgroup of `pid` (memory.events, or memory.oom_control on v1)."""
        ...


class KernelLog(Protocol):
    """The kernel's log."""

    async def lines(self) -> Reading[tuple[str, ...]]:
        """Its last lines about drivers, killed processes and hung tasks, oldest first, each with its time."""
        ...


class SharedMemory(Protocol):
    """The host's own /dev/shm. A file is its name and its inode."""

    async def files(self) -> Reading[tuple[int, ...]]:
        """Inodes of all that is there."""
        ...

    async def mapped(self, processes: Collection[int]) -> Reading[tuple[tuple[str, int], ...]]:
        """What those processes have mapped of it; less where one may not be looked into."""
        ...

    async def unused(self, files: Collection[tuple[str, int]]) -> Reading[tuple[tuple[str, int], ...]]:
        """Those of `files` that are still there and that no process has mapped; Unknown where that cannot be told."""
        ...

    async def remove(self, files: Collection[tuple[str, int]]) -> str:
        """Remove them; what could not be, in words, else nothing."""
        ...


class Sockets(Protocol):
    """TCP as seen from the network namespace of a process (any user may look)."""

    async def connections(self, pid: int, port: int) -> Reading[PortConnections]:
        """Connections to local `port` in the network namespace of `pid`, over IPv4 and IPv6."""
        ...

    async def table(self, pid: int, port: int) -> Reading[tuple[Connection, ...]]:
        """Each connection whose local port it is, as seen from the namespace of `pid`."""
        ...

    async def listeners(self, port: int, pid: int | None = None) -> Reading[tuple[Listener, ...]]:
        """Who listens on `port` in the namespace of `pid` (None: the agent's own); empty when nobody does."""
        ...
