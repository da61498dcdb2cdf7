"""What a host is: its cards, memory, disks, driver and boot, as one snapshot."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from agent.clock import Instant, timestamp
from agent.host.gpu import Gpu
from agent.host.reading import Known, Reading, Unknown, as_json, to_json
from agent.quantity import Bytes

NOT_READ = Unknown("it was not read")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemory:
    """The host's RAM, from /proc/meminfo.

    `available` is what can be had without swapping (MemAvailable). `locked` cannot be swapped or reclaimed (Mlocked),
    `shared` is tmpfs and shared memory (Shmem: /dev/shm too), `hugepages` is set aside whether used or not.
    `oom_kills` counts processes that the kernel killed for memory since boot.
    """

    total: Reading[Bytes]
    available: Reading[Bytes]
    swap_total: Reading[Bytes]
    swap_free: Reading[Bytes]
    locked: Reading[Bytes]
    shared: Reading[Bytes]
    hugepages: Reading[Bytes]
    oom_kills: Reading[int]
    anonymous: Reading[Bytes] = NOT_READ
    """Memory of processes that no file backs (AnonPages)."""

    def to_json(self) -> dict[str, Any]:
        return _json_of(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The NVIDIA driver in its three parts, each as `610.57.04`; they differ after an upgrade without a reboot.

    `version` is what NVML answers, `kernel_module` what is loaded in the kernel, `userland` the library on disk, which
    the next container start will use (a running one keeps the old). `cuda` is the newest CUDA it serves, as `13.0`.
    """

    version: Reading[str]
    kernel_module: Reading[str]
    userland: Reading[str]
    cuda: Reading[str]

    @property
    def skewed(self) -> Reading[bool]:
        """Whether kernel module and library on disk differ: then no new CUDA program starts until a reboot."""
        kernel, library = self.kernel_module, self.userland
        if isinstance(kernel, Unknown):
            return kernel
        if isinstance(library, Unknown):
            return library
        return Known(kernel.value != library.value, kernel.at)

    def to_json(self) -> dict[str, Any]:
        return _json_of(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What does not change while the host is up. `cpus` is how many this process may use."""

    hostname: str
    kernel: str
    machine: str
    """`x86_64`, `aarch64`."""
    cpus: int
    boot_id: Reading[str]
    booted: Reading[float]
    """When it booted, seconds since the epoch."""

    def to_json(self) -> dict[str, Any]:
        own = {"hostname": self.hostname, "kernel": self.kernel, "machine": self.machine, "cpus": self.cpus}
        return own | to_json({"boot_id": self.boot_id, "booted": self.booted})


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """The file system under a path. `available` is what a user other than root may still write."""

    path: str
    mount: str
    kind: str
    """`ext4`, `xfs`, `nfs4`, `overlay`, …"""
    read_only: bool
    total: Bytes
    available: Bytes
    inodes_free: int | None
    """None where the file system does not count them (btrfs)."""

    @property
    def network(self) -> bool:
        """Whether reads cross a network: slow to load from, and able to hang."""
        return self.kind in _NETWORK or self.kind.startswith("fuse.")

    def to_json(self) -> dict[str, Any]:
        return {field.name: as_json(getattr(self, field.name)) for field in fields(self)} | {"network": self.network}


_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "glusterfs", "lustre", "9p", "beegfs", "virtiofs"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One snapshot: for a plan's lock, an incident, `doctor` and `/v1/host`."""

    at: Instant
    facts: HostFacts
    memory: Reading[HostMemory]
    driver: Driver
    gpus: Reading[tuple[Gpu, ...]]

    def to_json(self) -> dict[str, Any]:
        own = {"at": timestamp(self.at.wall), "facts": self.facts.to_json(), "driver": self.driver.to_json()}
        return own | to_json({"memory": self.memory, "gpus": self.gpus})


def _json_of(record: HostMemory | Driver) -> dict[str, Any]:
    return to_json({field.name: getattr(record, field.name) for field in fields(record)})
