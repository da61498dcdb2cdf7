"""What `doctor` asks of the host: the kernel's clock, systemd, rights, the record on disk, the PCI bus."""

from __future__ import annotations

import asyncio
import ctypes
import os
import pwd
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from agent.adapters.process_start import DOOR
from agent.adapters.procfs import parse_keys, read
from agent.adapters.runtime_threads import Threads
from agent.adapters.sqlite_schema import VERSION
from agent.clock import Clock
from agent.host.reading import Known, Reading, Unknown
from agent.preflight.surroundings import Access, Apart, Rights, State, Sync, Unit

T = TypeVar("T")

CAPABILITIES = {"DAC_READ_SEARCH": 2, "KILL": 5, "SYS_PTRACE": 19, "SYSLOG": 34}
"""Bits of CapEff (linux/capability.h)."""
MANAGED = "run/systemd/system"
"""There where systemd is the init (sd_booted(3))."""
UNIT = "recipe-agent.service"
SHOWN = ("LoadState", "ActiveState", "UnitFileState", "NRestarts", "Result")
STA_UNSYNC = 0x40
NVIDIA_VENDOR = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers, without their audio and USB functions."""
SQLITE_MAGIC = b"SQLite format 3\x00"
USER_VERSION = slice(60, 64)
"""Where SQLite's file format keeps `user_version`, big-endian."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path that the agent needs, and for what; `mode` as `os.access` takes it."""

    path: Path
    mode: int
    purpose: str


class timex(ctypes.Structure):  # noqa: N801  (the kernel's name, adjtimex(2))
    """The first fields, and room for the rest."""

    _fields_: ClassVar = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 512),
    ]


class HostSurroundings:
    """A `Surroundings`. `record`: the agent's database; `places`: what its user must be able to reach."""

    def __init__(self, clock: Clock, record: Path, places: Sequence[Place], root: Path = Path("/")) -> None:
        self._clock = clock
        self._record = record
        self._places = places
        self._root = root
        self._threads = Threads("doctor")

    async def sync(self) -> Reading[Sync]:
        return await self._look(self._sync)

    async def rights(self) -> Reading[Rights]:
        return await self._look(self._rights)

    async def apart(self) -> Reading[Apart]:
        return await self._look(self._apart)

    async def state(self) -> Reading[State]:
        return await self._look(self._state)

    async def nvidia_devices(self) -> Reading[int]:
        return await self._look(self._nvidia_devices)

    async def unit(self) -> Reading[Unit]:
        if not (self._root / MANAGED).is_dir():
            return Unknown("systemd does not run this host")
        words = ("systemctl", "show", UNIT, f"--property={','.join(SHOWN)}")
        try:
            async with asyncio.timeout(5.0):
                return await self._shown(words)
        except TimeoutError:
            return Unknown("systemctl gave no answer within 5 s")
        except OSError as error:
            return Unknown(f"cannot run systemctl: {error.strerror}")

    async def _shown(self, words: Sequence[str]) -> Reading[Unit]:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            return Unknown(f"systemctl: {err.decode(errors='replace').strip()}")
        return Known(unit_of(out.decode(errors="replace")), self._clock.now())

    async def _look(self, look: Callable[[], Reading[T]]) -> Reading[T]:
        try:
            return await self._threads.run(look, 5.0)
        except TimeoutError:
            return Unknown("no answer within 5 s")
        except OSError as error:
            return Unknown(f"cannot look at {error.filename}: {error.strerror}")

    def _sync(self) -> Reading[Sync]:
        answer = timex()
        if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(answer)) < 0:
            return Unknown(f"adjtimex: {os.strerror(ctypes.get_errno())}")
        synchronised = not answer.status & STA_UNSYNC
        return Known(Sync(synchronised, answer.maxerror / 1e6 if synchronised else None), self._clock.now())

    def _rights(self) -> Reading[Rights]:
        status = read(Path("/proc/self/status"), self._clock.now())
        if isinstance(status, Unknown):
            return status
        effective = int(parse_keys(status.value)["CapEff"], 16)
        held = frozenset(name for name, bit in CAPABILITIES.items() if effective >> bit & 1)
        return Known(
            Rights(user_name(os.geteuid()), tuple(access_to(place) for place in self._places), held), status.at
        )

    def _apart(self) -> Reading[Apart]:
        door = self._root / str(DOOR).lstrip("/")
        try:
            found = door.stat()
        except FileNotFoundError:
            owner = ""
        else:
            owner = user_name(found.st_uid) if stat.S_ISSOCK(found.st_mode) else ""
        return Known(Apart((self._root / MANAGED).is_dir(), str(DOOR), owner), self._clock.now())

    def _state(self) -> Reading[State]:
        if not self._record.exists():
            return Known(State(str(self._record), None, VERSION), self._clock.now())
        with self._record.open("rb") as file:
            head = file.read(100)
        if not head.startswith(SQLITE_MAGIC):
            return Unknown(f"{self._record} is no SQLite database")
        version = int.from_bytes(head[USER_VERSION], "big")
        return Known(State(str(self._record), version, VERSION), self._clock.now())

    def _nvidia_devices(self) -> Reading[int]:
        devices = self._root / "sys/bus/pci/devices"
        if not devices.is_dir():
            return Unknown(f"there is no {devices}")
        return Known(sum(is_card(device) for device in devices.iterdir()), self._clock.now())


def is_card(device: Path) -> bool:
    vendor, kind = (value(device / name) for name in ("vendor", "class"))
    return vendor == NVIDIA_VENDOR and kind.startswith(DISPLAY_CLASSES)


def value(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:  # taken out meanwhile
        return ""


def unit_of(shown: str) -> Unit:
    """From `systemctl show`: `Key=value` lines."""
    keys = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    restarts = keys.get("NRestarts", "")
    return Unit(
        load=keys.get("LoadState", ""),
        active=keys.get("ActiveState", ""),
        enabled=keys.get("UnitFileState", ""),
        restarts=int(restarts) if restarts.isdigit() else None,
        result=keys.get("Result", ""),
    )


def access_to(place: Place) -> Access:
    names = ((os.R_OK, "read"), (os.W_OK, "write"))
    lacks = [name for bit, name in names if place.mode & bit and not os.access(place.path, bit, effective_ids=True)]
    return Access(str(place.path), place.purpose, place.path.exists(), " and ".join(lacks))


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container's user without an entry
        return f"uid {uid}"
