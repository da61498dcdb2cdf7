"""The host's own facts, memory and disks, from /proc and statvfs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from agent.adapters.aside import Aside
from agent.adapters.procfs import parse_kernel_module, parse_keys, read
from agent.adapters.together import Together
from agent.clock import Clock, Instant
from agent.host.model import DiskSpace, HostFacts, HostMemory
from agent.host.reading import Known, Reading, Unknown
from agent.quantity import Bytes

_ESCAPE = re.compile(r"\\([0-7]{3})")


class ProcHost:
    """A `HostSource`."""

    def __init__(self, clock: Clock, proc: Path = Path("/proc")) -> None:
        self._clock = clock
        self._proc = proc
        self._aside = Aside("/proc")
        self._disks = Aside("the file system")
        self._together = Together(self._memory_now)

    async def facts(self) -> HostFacts:
        system = os.uname()
        boot_id = await self._aside.look(self._boot_id)
        booted = await self._aside.look(self._booted)
        return HostFacts(
            hostname=system.nodename,
            kernel=system.release,
            machine=system.machine,
            cpus=len(os.sched_getaffinity(0)),
            boot_id=boot_id,
            booted=booted,
        )

    async def memory(self) -> Reading[HostMemory]:
        return await self._together.ask(None)

    async def disk(self, path: str) -> Reading[DiskSpace]:
        return await self._disks.look(lambda: self._disk(path))

    async def _memory_now(self, _: tuple[None, ...]) -> Mapping[None, Reading[HostMemory]]:
        return {None: await self._aside.look(self._memory)}

    def _boot_id(self) -> Reading[str]:
        text = read(self._proc / "sys/kernel/random/boot_id", self._clock.now())
        return Known(text.value.strip(), text.at) if isinstance(text, Known) else text

    def _booted(self) -> Reading[float]:
        text = read(self._proc / "stat", self._clock.now())
        if isinstance(text, Unknown):
            return text
        return _number(parse_keys(text.value), "btime", "stat", text.at)

    def _memory(self) -> Reading[HostMemory]:
        now = self._clock.now()
        meminfo, vmstat = read(self._proc / "meminfo", now), read(self._proc / "vmstat", now)
        if isinstance(meminfo, Unknown):
            return meminfo
        keys = parse_keys(meminfo.value)
        kills: Reading[int] = vmstat if isinstance(vmstat, Unknown) else _kills(parse_keys(vmstat.value), now)
        memory = HostMemory(
            total=_size(keys, "MemTotal", now),
            available=_size(keys, "MemAvailable", now),
            swap_total=_size(keys, "SwapTotal", now),
            swap_free=_size(keys, "SwapFree", now),
            locked=_size(keys, "Mlocked", now),
            shared=_size(keys, "Shmem", now),
            hugepages=_hugepages(keys, now),
            oom_kills=kills,
            anonymous=_size(keys, "AnonPages", now),
        )
        return Known(memory, now)

    def _disk(self, path: str) -> Reading[DiskSpace]:
        now = self._clock.now()
        mounts = read(self._proc / "self/mountinfo", now)
        if isinstance(mounts, Unknown):
            return mounts
        try:
            place = Path(path).resolve()
            while not place.exists():
                place = place.parent
            space = os.statvfs(place)
        except OSError as error:
            return Unknown(f"cannot look at {path}: {error.strerror}")
        mount, kind = mount_of(str(place), mounts.value)
        return Known(
            DiskSpace(
                path=path,
                mount=mount,
                kind=kind,
                read_only=bool(space.f_flag & os.ST_RDONLY),
                total=Bytes(space.f_blocks * space.f_frsize),
                available=Bytes(space.f_bavail * space.f_frsize),
                inodes_free=space.f_favail if space.f_files else None,
            ),
            now,
        )


def kernel_module(proc: Path, at: Instant) -> Reading[str]:
    """The version of the NVIDIA kernel module that is loaded."""
    text = read(proc / "driver/nvidia/version", at)
    if isinstance(text, Unknown):
        return Unknown(f"{text.reason}: the nvidia kernel module is not loaded, or not visible here")
    version = parse_kernel_module(text.value)
    return Known(version, at) if version else Unknown(f"no version in {proc}/driver/nvidia/version")


def mount_of(path: str, mountinfo: str) -> tuple[str, str]:
    """Mount point and kind of the file system that holds `path`; of several on one point, the last is on top."""
    best = ("/", "unknown")
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), before.split()[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, after.split()[0])
    return best


def _number(keys: Mapping[str, str], key: str, file: str, at: Instant) -> Reading[float]:
    return Known(float(keys[key]), at) if key in keys else Unknown(f"this kernel's {file} has no {key}")


def _kills(keys: Mapping[str, str], at: Instant) -> Reading[int]:
    return Known(int(keys["oom_kill"]), at) if "oom_kill" in keys else Unknown("this kernel's vmstat has no oom_kill")


def _size(keys: Mapping[str, str], key: str, at: Instant) -> Reading[Bytes]:
    """meminfo says kB and means 1024 bytes."""
    if key not in keys:
        return Unknown(f"this kernel's meminfo has no {key}")
    return Known(Bytes(int(keys[key].removesuffix(" kB")) * 1024), at)


def _hugepages(keys: Mapping[str, str], at: Instant) -> Reading[Bytes]:
    page = _size(keys, "Hugepagesize", at)
    if isinstance(page, Unknown) or "HugePages_Total" not in keys:
        return Unknown("this kernel has no huge pages")
    return Known(Bytes(page.value * int(keys["HugePages_Total"])), at)
