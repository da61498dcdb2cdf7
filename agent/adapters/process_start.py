"""Starting the wrapper: in a unit of its own where systemd opens the door to one, else as a child in its own session.

A child inherits the agent's sandbox, devices and limits, and the memory of both is counted as one. `process_launcher`
is the other side of the door. Why a socket, and not templates that polkit lets the agent start: polkit is on few
servers, its rule would have to name units by pattern, and a unit's name or environment would have to carry what an
engine is; a connection carries it past every listing, and the kernel says who is asking.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agent.adapters import process_records as records
from agent.adapters import process_table as processes
from agent.adapters.process_launcher import Refused, Request, decoded, read_line, stub_command
from agent.adapters.process_records import Record
from agent.adapters.process_table import Mark

DOOR = Path("/run/recipe-agent-engine.sock")
"""Where systemd listens for us (units/recipe-agent-engine.socket)."""
POLL_S = 0.01
ROOM = 4096
"""Bytes that are tried where a wrapper says nothing: a block of most file systems, as its small files take."""

INHERITED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
)
"""What of the agent's environment an engine gets: where programs and libraries lie on this host, nothing else."""


class DoorShut(Exception):
    """There is a door to units of their own, and no unit came; the text says why."""


@dataclass(frozen=True, slots=True)
class LogRotation:
    """The engine's log: `files` files of `max_bytes` each, 0 for no bound."""

    max_bytes: int
    files: int


def base_environment() -> dict[str, str]:
    """What every engine starts with, before the launch's own variables."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {"PATH": os.defpath} | kept


def start_problem(argv: tuple[str, ...], env: dict[str, str], cwd: str) -> str | None:
    """Why this cannot be executed here, so that it is said before anything is tried."""
    if not Path(cwd).is_dir():
        return f"there is no folder {cwd} to run in"
    if "/" in argv[0]:
        path = Path(cwd, argv[0])
        return None if os.access(path, os.X_OK) and path.is_file() else f"{path} is not an executable file"
    if shutil.which(argv[0], path=env.get("PATH", os.defpath)) is None:
        return f"there is no program {argv[0]} in {env.get('PATH', os.defpath)}"
    return None


def start(record: Record, rotation: LogRotation, deadline: float, door: Path | None) -> int | None:
    """Run the wrapper; returns once the engine runs, or could not be executed, or `deadline` (s) passed.

    Its pid where it is a child of ours, to be reaped; None where it has a unit of its own. Raises DoorShut where there
    is a door and no unit behind it.
    """
    until = time.monotonic() + deadline
    request = Request(str(record.folder), record.cwd, rotation.max_bytes, rotation.files)
    side = knock(door, deadline) if door is not None else None
    if side is None:
        pid = spawn(record, request)
        while not _settled(record) and not reap(pid) and time.monotonic() < until:
            time.sleep(POLL_S)
        return pid
    with side:
        wrapper = hand_over(side, request)
    while not _settled(record) and processes.alive(wrapper) and time.monotonic() < until:
        time.sleep(POLL_S)
    return None


def knock(door: Path, deadline: float) -> socket.socket | None:
    """A connection for one engine; None where the door is not there or not for us, so that there is the other way."""
    try:
        if door.stat().st_uid != os.geteuid():
            return None
    except FileNotFoundError:
        return None
    side = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    side.settimeout(deadline)
    try:
        side.connect(str(door))
    except OSError as error:
        side.close()
        if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
            return None  # its unit has been stopped
        raise DoorShut(f"{door}: {error.strerror or error}") from error
    return side


def hand_over(side: socket.socket, request: Request) -> Mark:
    """Tell the launcher what to become; the wrapper that it is now. Raises DoorShut."""
    try:
        wrapper = int(_said(side, "pid"))
        found = processes.process(wrapper)
        side.sendall(request.line())
        _said(side, "taken")
    except TimeoutError as error:
        raise DoorShut("systemd started nothing for it in time") from error
    except (OSError, Refused, ValueError) as error:
        raise DoorShut(str(error)) from error
    if found is None:
        raise DoorShut(f"its launcher (pid {wrapper}) is not in the agent's /proc")
    return found.mark


def _said(side: socket.socket, key: str) -> Any:
    """What the launcher says; raises Refused with its reason, or where it says nothing."""
    line = read_line(side)
    if not line:
        raise Refused("the launcher ended without a word (too many connections, or it failed)")
    document = decoded(line)
    if key not in document:
        raise Refused(str(document.get("refused", f"no {key} in its answer")))
    return document[key]


def spawn(record: Record, request: Request) -> int:
    """The wrapper as a child; its pid.

    `posix_spawn` rather than `subprocess`: the agent does not wait for it, and may end before it.
    """
    in_scope = scope(record.name)
    argv = [*in_scope, *stub_command(request, own_group=bool(in_scope))]
    return os.posix_spawn(
        argv[0],
        argv,
        base_environment(),
        file_actions=_output_to(record.folder / "wrapper.log"),
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD),
    )


def reap(pid: int) -> bool:
    """Collect a wrapper of ours that has ended; True where it has, also where it is not our child."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _settled(record: Record) -> bool:
    """Whether the wrapper has said what became of it, and has removed what may hold secrets."""
    told = records.text(record, "started") or records.text(record, "failed")
    return bool(told) and not (record.folder / "environ").exists()


def silence(record: Record) -> str:
    """Why a wrapper may have said nothing: all that it says is a file, which a full or broken disk does not take."""
    tried = record.folder / "room"
    try:
        with tried.open("wb", buffering=0) as file:
            file.write(bytes(ROOM))
            os.fsync(file.fileno())
    except OSError as error:
        return f"its wrapper gave no sign, and nothing can be written to {record.folder}: {error.strerror}"
    finally:
        with suppress(OSError):
            tried.unlink(missing_ok=True)
    return "its wrapper gave no sign"


def _output_to(path: Path) -> list[tuple[int, int, str, int, int] | tuple[int, int, int]]:
    return [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]


def scope(name: str) -> tuple[str, ...]:
    """`systemd-run --scope` becomes the command itself; the scope ends with the last process in it."""
    tool = _systemd_run()
    if tool is None:
        return ()
    return (tool, "--scope", "--quiet", "--collect", f"--description=recipe-agent engine {name}", "--")


@cache
def _systemd_run() -> str | None:
    """Path of a `systemd-run` that works for us, found out by trying: it needs systemd, its bus and the rights."""
    tool = shutil.which("systemd-run")
    if tool is None or not Path("/run/systemd/system").is_dir():
        return None
    trial = [tool, "--scope", "--quiet", "--collect", "--", "true"]
    try:
        done = subprocess.run(trial, stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return tool if done.returncode == 0 else None
