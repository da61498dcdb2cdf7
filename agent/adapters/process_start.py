"""Starting the wrapper: a child in its own session, in a scope of its own where systemd would end it with the agent."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agent.adapters import process_records as records
from agent.adapters.process_records import Record

STUB = Path(__file__).with_name("process_stub.py")
POLL_S = 0.01

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


def start(record: Record, rotation: LogRotation, deadline: float) -> int:
    """Run the wrapper and return its pid once the engine runs, or could not be executed, or `deadline` passed.

    `posix_spawn` rather than `subprocess`: the agent does not wait for it, and may end before it.
    """
    stub = [sys.executable, "-I", "-S", str(STUB), str(record.folder), record.cwd]
    argv = [*scope(record.name), *stub, str(rotation.max_bytes), str(rotation.files)]
    pid = os.posix_spawn(
        argv[0],
        argv,
        base_environment(),
        file_actions=_output_to(record.folder / "wrapper.log"),
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD),
    )
    until = time.monotonic() + deadline
    while not _settled(record) and not reap(pid) and time.monotonic() < until:
        time.sleep(POLL_S)
    return pid


def reap(pid: int) -> bool:
    """Collect a wrapper of ours that has ended; True where it has, also where it is not our child."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _settled(record: Record) -> bool:
    return bool(records.text(record, "started") or records.text(record, "failed"))


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
