"""Files of /proc as data. Parsers only read their text; `read` is the one place that opens a file."""

from __future__ import annotations

import os
import re
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from agent.clock import Instant
from agent.host.process import Connection
from agent.host.reading import Known, Reading, Unknown

_CONTAINER = re.compile(r"[0-9a-f]{64}")
_KERNEL_THREAD = 0x00200000
_PIECE = 1 << 16
_MODULE = re.compile(r"Kernel Module\b.*?\s(\d+\.\d+(?:\.\d+)*)\s")


def read(path: Path, at: Instant) -> Reading[str]:
    """The text of a file, or why it cannot be had: no such file, no right, the process has ended."""
    try:
        return Known(contents(str(path)).decode("utf-8", "replace"), at)
    except FileNotFoundError:
        return Unknown(f"there is no {path}")
    except ProcessLookupError:
        return Unknown(f"{path}: the process has ended")
    except PermissionError:
        return Unknown(f"no right to read {path}")
    except OSError as error:
        return Unknown(f"cannot read {path}: {error.strerror}")


def contents(path: str) -> bytes:
    """All of a file of the kernel's. `open` and its layers cost four times as much, and a look reads hundreds."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = [os.read(handle, _PIECE)]
        while parts[-1]:  # a short read is no end: the kernel gives out its tables by the page
            parts.append(os.read(handle, _PIECE))
    finally:
        os.close(handle)
    return b"".join(parts)


def pids(proc: Path) -> list[int]:
    """All processes that may be seen, lowest first."""
    return sorted(int(name) for name in os.listdir(proc) if name.isdigit())  # noqa: PTH208 - a Path for each costs more


def open_files(proc: Path, pid: int) -> set[str] | None:
    """What its descriptors lead to (`/dev/nvidia0`, `socket:[4711]`); None without the right to look."""
    try:
        return {target for entry in (proc / str(pid) / "fd").iterdir() if (target := _target(entry))}
    except PermissionError:
        return None
    except OSError:  # it has ended meanwhile, and holds nothing
        return set()


def _target(entry: Path) -> str:
    try:
        return str(entry.readlink())
    except OSError:  # closed meanwhile
        return ""


@dataclass(frozen=True, slots=True)
class Stat:
    """What matters of /proc/PID/stat; times are in clock ticks."""

    pid: int
    name: str
    state: str
    ppid: int
    kernel_thread: bool
    cpu_ticks: int
    threads: int
    start_ticks: int


def parse_stat(text: str) -> Stat:
    """The name may hold blanks and brackets, so the last bracket ends it."""
    head, _, tail = text.rpartition(")")
    pid, _, name = head.partition(" (")
    field = tail.split()
    return Stat(
        pid=int(pid),
        name=name,
        state=field[0],
        ppid=int(field[1]),
        kernel_thread=bool(int(field[6]) & _KERNEL_THREAD),
        cpu_ticks=int(field[11]) + int(field[12]),
        threads=int(field[17]),
        start_ticks=int(field[19]),
    )


def parse_keys(text: str) -> dict[str, str]:
    """`Key:  value` lines (status, meminfo) and `key value` lines (vmstat, memory.events)."""
    return {line.split()[0].rstrip(":"): " ".join(line.split()[1:]) for line in text.splitlines() if line.split()}


@dataclass(frozen=True, slots=True)
class Cgroups:
    """/proc/PID/cgroup: the path in the unified hierarchy, and by controller in the v1 ones."""

    unified: str | None
    controllers: dict[str, str]

    @property
    def path(self) -> str:
        """The one that says most: the longest."""
        return max((path for path in (self.unified, *self.controllers.values()) if path), key=len, default="/")

    @property
    def containers(self) -> tuple[str, ...]:
        """The 64-digit ids of the containers around the process, the innermost last."""
        return tuple(_CONTAINER.findall(self.path))


def parse_cgroups(text: str) -> Cgroups:
    unified, controllers = None, {}
    for line in text.splitlines():
        number, names, path = line.split(":", 2)
        if number == "0" and not names:
            unified = path
        else:
            controllers.update(dict.fromkeys(names.split(","), path))
    return Cgroups(unified, controllers)


@dataclass(frozen=True, slots=True)
class TcpRow:
    """One row of /proc/net/tcp or tcp6. `state` is the kernel's number; `inode` 0: no process has the socket."""

    address: str
    port: int
    state: int
    inode: int


ESTABLISHED, CLOSE_WAIT, LISTEN = 0x01, 0x08, 0x0A


def parse_tcp(text: str, port: int) -> list[TcpRow]:
    """The rows whose local port it is. The remote port never counts: on loopback both ends of a connection show."""
    here = f":{port:04X} "  # looked for first: a busy host has thousands of rows, and a handful are wanted
    rows = (line.split() for line in text.splitlines()[1:] if here in line)
    return [row for row in map(_tcp_row, rows) if row.port == port]


def _tcp_row(field: list[str]) -> TcpRow:
    address, _, port = field[1].partition(":")
    return TcpRow(_address(address), int(port, 16), int(field[3], 16), int(field[9]))


STATES = {
    0x01: "ESTABLISHED", 0x02: "SYN_SENT", 0x03: "SYN_RECV", 0x04: "FIN_WAIT1", 0x05: "FIN_WAIT2", 0x06: "TIME_WAIT",
    0x07: "CLOSE", 0x08: "CLOSE_WAIT", 0x09: "LAST_ACK", 0x0A: "LISTEN", 0x0B: "CLOSING",
}  # fmt: skip


def parse_connections(text: str, port: int) -> list[Connection]:
    """The rows whose local port it is, with their other ends; those that only listen have none and are left out."""
    found = []
    here = f":{port:04X} "
    for line in text.splitlines()[1:]:
        if here not in line:
            continue
        field = line.split()
        state = int(field[3], 16)
        if state == LISTEN or int(field[1].partition(":")[2], 16) != port:
            continue
        address, _, peer_port = field[2].partition(":")
        word = STATES.get(state, f"state {state}")
        found.append(Connection(word, _address(address), int(peer_port, 16), accepted=field[9] != "0"))
    return found


def _address(digits: str) -> str:
    """Words of 32 bits in the host's own byte order."""
    words = [int(digits[start : start + 8], 16) for start in range(0, len(digits), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, packed)


def parse_kernel_module(text: str) -> str | None:
    """The version in /proc/driver/nvidia/version, of the closed and of the open module."""
    match = _MODULE.search(text)
    return match[1] if match else None
