"""What the kernel says about processes and their TCP connections."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from agent.host.reading import Reading, Unknown, as_json, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process at one moment. A pid is reused; a pid with its `start_ticks` is not, within one boot.

    `state` is the kernel's letter: R running, S sleeping, D uninterruptible (no signal helps), T stopped, t traced,
    Z ended and not reaped, I idle kernel thread.
    """

    pid: int
    ppid: int
    state: str
    start_ticks: int
    """Clock ticks from boot to its start."""
    name: str
    """The kernel's name of it, at most 15 characters."""
    cmdline: tuple[str, ...]
    """Empty for a kernel thread, and for a zombie (Z)."""
    cpu_seconds: float
    """User + system time of all its threads."""
    threads: int
    uid: Reading[int]
    cgroup: Reading[str]
    """Its path in the unified hierarchy, or the longest of the v1 ones."""
    container: str | None
    """64 hex digits of the container it runs in; None where its cgroup names none."""
    io_bytes: Reading[int] = field(default=Unknown("not read"))
    """Bytes that it read from storage and wrote to it; what the page cache gave is not among them."""
    own_bytes: Reading[int] = field(default=Unknown("not read"))
    """Memory that is resident and neither a file's nor shared."""

    @property
    def ended(self) -> bool:
        """Whether it has ended, though its parent has not asked how."""
        return self.state in ("Z", "X", "x")

    @property
    def unkillable(self) -> bool:
        """Whether it waits in the kernel where no signal reaches it."""
        return self.state == "D"

    def to_json(self) -> dict[str, Any]:
        readings: dict[str, Reading[Any]] = {
            "uid": self.uid,
            "cgroup": self.cgroup,
            "io_bytes": self.io_bytes,
            "own_bytes": self.own_bytes,
        }
        own = {field.name: as_json(getattr(self, field.name)) for field in fields(self) if field.name not in readings}
        return own | to_json(readings)


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """A process that has NVIDIA device files open, whether NVML names it or not."""

    pid: int
    devices: tuple[str, ...]
    """`/dev/nvidia0`, `/dev/nvidia-uvm`, …, sorted."""


@dataclass(frozen=True, slots=True)
class Holders:
    """All of them, as far as this process may look. `unreadable`: how many processes it may not look into."""

    found: tuple[GpuHolder, ...]
    unreadable: int


@dataclass(frozen=True, slots=True)
class PortConnections:
    """TCP connections whose local port is the one asked for.

    `established` are clients, those included that the server has not accepted yet (`unaccepted`: a stopped server's
    backlog has them). `close_wait` are clients that have gone and a server that did not notice.
    """

    established: int
    close_wait: int
    unaccepted: int


@dataclass(frozen=True, slots=True)
class Connection:
    """One TCP connection: who is at the other end, and in which state (`ESTABLISHED`, `CLOSE_WAIT`, …)."""

    state: str
    peer: str
    peer_port: int
    accepted: bool
    """Whether a process of the engine has it; a stopped server's backlog has connections that nobody has."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Who listens on a port. `address` as `0.0.0.0`, `127.0.0.1`, `::`."""

    address: str
    port: int
    inode: int
    pid: Reading[int]
