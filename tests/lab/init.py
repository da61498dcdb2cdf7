"""The first process of the lab's namespaces: makes them usable, runs one command, ends with what it left behind.

Being process 1 of a process namespace, it adopts every orphan, so it reaps them; and when it ends (or is killed) the
kernel ends everything else in there. That is how the lab leaves no process on the host.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

LEFT_BEHIND = 70
GRACE_S = 15.0

# Docker keeps a key in /etc, containerd its plug-ins in /opt; Alertmanager finds its template in /usr/share only.
COVERED = (Path("/etc"), Path("/opt"), Path("/usr/share"))

_MS_BIND, _MS_REC = 0x1000, 0x4000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1


def main(command: list[str]) -> int:
    """Runs `command` and returns its exit status, or LEFT_BEHIND where it succeeded but left processes running."""
    hide(Path("/run"))
    for folder in COVERED:
        cover(folder)
    raise_loopback()
    status = supervise(command)
    left = remaining()
    for pid in left:
        print(f"lab: left behind by the command: {pid} {_words(pid)}", file=sys.stderr)
    return LEFT_BEHIND if left and status == 0 else status


def hide(folder: Path) -> None:
    """Mounts an empty folder over one of the host's, in this mount namespace only.

    `/run` holds the host's Docker socket, which no test may reach by accident, and containerd keeps its shims'
    sockets at a fixed path in it.
    """
    mount("tmpfs", folder, "tmpfs", options="mode=755")


def cover(folder: Path) -> None:
    """Lets a folder of the host's be read as it is, while what is written to it stays in these namespaces."""
    if any(point.path == folder and "upperdir=/run/lab/" in point.options for point in mount_points()):
        return  # a lab in a lab: already so, and overlays stack two deep only
    layers = Path("/run/lab", *folder.parts[1:])
    for name in ("lower", "upper", "work"):
        (layers / name).mkdir(parents=True)
    mount(str(folder), layers / "lower", None, _MS_BIND | _MS_REC)
    mount("overlay", folder, "overlay", options=",".join(f"{n}dir={layers / n}" for n in ("lower", "upper", "work")))
    for point in mount_points():  # such as /etc/hosts in a container; an overlay shows one mount only
        if layers / "lower" in point.path.parents:
            mount(str(point.path), folder / point.path.relative_to(layers / "lower"), None, _MS_BIND | _MS_REC)


def mount(source: str, target: Path, kind: str | None, flags: int = 0, options: str | None = None) -> None:
    """mount(2)."""
    words = [word.encode() if word is not None else None for word in (source, str(target), kind, options)]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot mount {source}: {os.strerror(number)}", str(target))


@dataclass(frozen=True, slots=True)
class MountPoint:
    """A line of /proc/self/mountinfo."""

    path: Path
    options: str


def mount_points() -> list[MountPoint]:
    """What is mounted in this namespace."""
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [MountPoint(Path(words[4]), words[-1]) for words in lines]


def raise_loopback() -> None:
    """A new network namespace has its loopback interface down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack("16xh14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def supervise(command: list[str]) -> int:
    """Runs the command in the foreground, reaping every orphan meanwhile; the shell's convention for its status."""
    child = os.posix_spawnp(command[0], command, os.environ)

    def forward(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGHUP, forward)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the command as well
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def remaining() -> list[int]:
    """Processes that still run in this namespace a moment after the command ended."""
    deadline = time.monotonic() + GRACE_S
    while (left := _running()) and time.monotonic() < deadline:
        _reap()
        time.sleep(0.05)
    return left


def _running() -> list[int]:
    own = os.getpid()
    return [pid for path in Path("/proc").glob("[0-9]*") if (pid := int(path.name)) != own and _state(pid) not in "ZX"]


def _state(pid: int) -> str:
    """The letter of its state; X for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "X"


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "(gone meanwhile)"


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
