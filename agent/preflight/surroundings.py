"""What `doctor` asks beside the facts that checks use: the agent's own rights, service, state and clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agent.host.reading import Reading


@dataclass(frozen=True, slots=True)
class Sync:
    """Whether the kernel's clock is kept by a time service, by the kernel's own word; `error_s` is its bound on it."""

    synchronised: bool
    error_s: float | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """A place that the agent needs, and what this user may do there of what it needs."""

    path: str
    purpose: str
    there: bool
    lacks: str = ""
    """`read`, `write`, or both; empty when nothing is lacking."""


@dataclass(frozen=True, slots=True)
class Rights:
    """Who runs this, and what it may do."""

    user: str
    places: tuple[Access, ...]
    capabilities: frozenset[str] = frozenset()
    """Of those that the agent makes use of: `KILL`, `SYS_PTRACE`, `DAC_READ_SEARCH`, `SYSLOG`."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The agent's service as systemd shows it."""

    load: str
    """`loaded`, `not-found`, `masked`, …"""
    active: str
    """`active`, `failed`, `inactive`, `activating`, …"""
    enabled: str = ""
    restarts: int | None = None
    result: str = ""
    """Why it ended last, `success` when nothing was wrong."""


@dataclass(frozen=True, slots=True)
class Apart:
    """What stands between engines that are plain processes and units of their own."""

    systemd: bool
    """Whether systemd runs this host."""
    door: str
    """The socket that the agent asks for one."""
    owner: str = ""
    """For which user it is, the only one who may ask; empty where it is not there."""


@dataclass(frozen=True, slots=True)
class State:
    """The agent's record on disk. None where there is none yet."""

    path: str
    version: int | None
    known: int
    """The version that this program writes."""


class Surroundings(Protocol):
    """Nothing here raises, and nothing outlasts its own bound."""

    async def sync(self) -> Reading[Sync]: ...

    async def rights(self) -> Reading[Rights]: ...

    async def unit(self) -> Reading[Unit]: ...

    async def apart(self) -> Reading[Apart]: ...

    async def state(self) -> Reading[State]: ...

    async def nvidia_devices(self) -> Reading[int]:
        """NVIDIA display or compute controllers on the PCI bus, whether a driver serves them or not."""
        ...
