"""What a check may ask of the host. Every answer is a reading: a value, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from agent.host.gpu import Gpu
from agent.host.links import Links
from agent.host.model import DiskSpace, Driver, HostMemory
from agent.host.process import Holders, Listener, Process
from agent.host.reading import Reading
from agent.preflight.trial import Ran, Trial
from agent.quantity import Bytes

NO_BYTES = Bytes(0)


class PathKind(StrEnum):
    """What stands at a path, links followed."""

    FILE = "file"
    FOLDER = "folder"
    SOCKET = "socket"
    DEVICE = "device"
    OTHER = "other"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class PathFact:
    """A path as the agent sees it. `real` is where its links end; for nothing, where it would be."""

    path: str
    real: str
    kind: PathKind
    size: Bytes = NO_BYTES
    mode: int = 0
    """Permission bits."""
    uid: int = 0
    gid: int = 0
    link: str | None = None
    """What the link says, where the path itself is one."""
    entries: int | None = None
    """How many entries a folder has, None where it may not be listed or is none."""


@dataclass(frozen=True, slots=True)
class MemoryUser:
    """A process and the RAM that ends with it.

    `resident` leaves out what is only page cache (anonymous + shared memory); `locked` cannot be swapped (VmLck or
    VmPin, the larger). Memory that a driver pinned for a process shows in neither.
    """

    pid: int
    name: str
    resident: Bytes
    locked: Bytes
    container: str | None = None
    """Id of the container it runs in, 64 hex digits."""
    shared: Bytes = NO_BYTES
    """The part of `resident` that is shared memory, and counts again in every process that shares it."""

    @property
    def holds(self) -> Bytes:
        """The larger of both: locked pages are mostly resident ones."""
        return max(self.resident, self.locked)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A container on this host, of ours or not."""

    id: str
    name: str
    running: bool
    slug: str | None = None
    """The recipe of a container of ours, None for a foreign one."""
    ports: frozenset[int] = frozenset()
    """Host ports that it publishes (TCP)."""
    host_network: bool = False


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """What runs containers. None where it does not say."""

    name: str
    version: str
    api_version: str | None = None
    rootless: bool = False
    root_dir: str | None = None
    runtimes: tuple[str, ...] = ()
    default_runtime: str | None = None
    storage_driver: str | None = None
    live_restore: bool | None = None
    cgroup_version: str | None = None
    cgroup_driver: str | None = None
    operating_system: str | None = None
    machine: str | None = None
    hidden: str = ""
    """Why what it runs cannot be watched from where the agent is."""
    passed_over: str = ""
    """DOCKER_HOST of this program's environment, where it names another engine than the site file does."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is there."""

    id: str
    size: Bytes | None = None
    entrypoint: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    architecture: str = ""


@dataclass(frozen=True, slots=True)
class LockLimit:
    """How much memory what starts the engine may let it lock. `hard` None is no limit.

    `raises`: it may lift the limit beyond `hard` (CAP_SYS_RESOURCE).
    """

    who: str
    hard: Bytes | None
    raises: bool


@dataclass(frozen=True, slots=True)
class Toolkit:
    """How GPUs get into containers here: the hook's path, CDI specifications, the version, where known."""

    hook: str | None
    cdi: tuple[str, ...] = ()
    complete: bool = True
    """False: the container engine's own search path may not be read, so that a hook may be there all the same."""


@dataclass(frozen=True, slots=True)
class Boot:
    """What the host says about its last and next boot."""

    seconds: float | None
    """Since the boot."""
    wants: tuple[str, ...] = ()
    """Packages for whose sake the distribution asks for a reboot; empty when it does not, or does not say why."""
    requested: bool = False


class Facts(Protocol):
    """What a run of checks asks; what is the same for all checks is read once a run.

    Nothing here raises, and nothing outlasts its own bound.
    """

    async def gpus(self) -> Reading[tuple[Gpu, ...]]: ...

    async def driver(self) -> Driver: ...

    async def memory(self) -> Reading[HostMemory]: ...

    async def memory_users(self) -> Reading[tuple[MemoryUser, ...]]:
        """All processes that hold memory, the largest first."""
        ...

    async def unattributed(self) -> Reading[Bytes]:
        """RAM that is in use by no process, cache or table that the kernel accounts: drivers pin such memory."""
        ...

    async def cgroup_memory(self, pid: int) -> Reading[Bytes]:
        """What the cgroup of `pid` holds of RAM, page cache apart: what comes back when all in it has ended."""
        ...

    async def process(self, pid: int) -> Reading[Process]: ...

    async def gpu_holders(self) -> Reading[Holders]: ...

    async def listeners(self, port: int) -> Reading[tuple[Listener, ...]]: ...

    async def disk(self, path: str) -> Reading[DiskSpace]: ...

    async def path(self, path: str) -> Reading[PathFact]:
        """What stands there; `NOTHING` is an answer, no right to look is none."""
        ...

    async def folder(self, path: str) -> Reading[tuple[PathFact, ...]]:
        """The entries of a folder, by name."""
        ...

    async def start_of(self, path: str, length: int, offset: int = 0) -> Reading[bytes]:
        """Up to `length` bytes of a file from `offset` on."""
        ...

    async def sha256(self, path: str) -> Reading[str]:
        """Of a whole file, as hex digits. Takes as long as the disk needs."""
        ...

    async def container_engine(self) -> Reading[ContainerEngine]: ...

    async def neighbours(self) -> Reading[tuple[Neighbour, ...]]:
        """The containers that run here."""
        ...

    async def name_holder(self, name: str) -> Reading[Neighbour | None]:
        """Which container has that name, running or not."""
        ...

    async def image(self, reference: str) -> Reading[Image | None]: ...

    async def lock_limit(self, in_container: bool) -> Reading[LockLimit]:
        """Of what starts containers, or of the agent itself, which starts processes."""
        ...

    async def toolkit(self) -> Reading[Toolkit]: ...

    async def boot(self) -> Reading[Boot]: ...

    async def links(self) -> Reading[Links]:
        """What the cards' links have been seen to do, as the daemon keeps it."""
        ...

    async def try_out(self, trial: Trial) -> Reading[Ran]:
        """Run a program where an engine will run. Takes as long as the trial says; Unknown where it cannot be run."""
        ...
