"""One agent per state folder, held by the kernel for as long as the process lives."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from agent.errors import AgentError


class AlreadyRuns(AgentError):
    """Another agent has this state folder."""

    code = "state.locked"
    message = "cannot start: another agent{who} uses {folder}"
    hint = "one agent a host; stop it, or give this one another paths.state"


class StateFolder(AgentError):
    """The state folder cannot be used."""

    code = "state.folder"
    message = "cannot use the state folder {folder}: {why}"
    hint = "create it for the agent's user, or set paths.state in agent.yaml"


class StateLock:
    """`flock` on `<folder>/lock`: gone with the process, however it ends."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise StateFolder(folder=folder, why=error.strerror or error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = os.pread(self._file, 32, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise AlreadyRuns(folder=folder, who=f" (pid {pid})" if pid else "") from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let it go; ending the process does the same."""
        os.close(self._file)
