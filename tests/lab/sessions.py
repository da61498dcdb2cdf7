"""One folder for each run of the lab, and the removal of what a killed run could not remove itself.

The owner of a session holds a lock in its folder for as long as it lives, so a folder whose lock can be had is stale;
that is true across process namespaces, where a pid would name somebody else. When an owner is gone the kernel ends its
processes and unmounts its mounts; left are files and empty control groups.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.packages import locked
from tests.lab.place import lab_folder

CGROUP_PREFIX = "recipe-agent-lab-"
CGROUPS = Path("/sys/fs/cgroup")
KERNEL_TIDIES_S = 10.0


@contextmanager
def opened() -> Iterator[Path]:
    """A new session's folder, owned by this process until the end of the block."""
    with locked(_home() / "lock"):
        folder = Path(tempfile.mkdtemp(dir=_home(), prefix=""))
        owner = (folder / "owner").open("w")
        fcntl.flock(owner, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        with locked(_home() / "lock"):  # a sweep of another run would take what is half removed for a stale one
            remove(folder)
        owner.close()


def sweep() -> list[str]:
    """Removes the sessions that nobody owns any more; returns their names."""
    with locked(_home() / "lock"):
        stale = [folder for folder in sorted(folders()) if not _is_owned(folder)]
        for folder in stale:
            remove(folder)
    return [folder.name for folder in stale]


def folders() -> set[Path]:
    """The folders of all sessions, stale ones too."""
    return {path for path in _home().iterdir() if path.is_dir()}


def remove(folder: Path) -> None:
    """Removes a session's files and control groups; waits while the kernel still ends the processes of a killed one.

    What is gone already was removed by somebody else.
    """
    deadline = time.monotonic() + KERNEL_TIDIES_S
    while True:
        try:
            for cgroup in cgroups(folder.name):
                _remove_cgroup(cgroup)
            return shutil.rmtree(folder)
        except FileNotFoundError:
            if not folder.exists():
                return None
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def cgroups(session: str) -> list[Path]:
    """The session's control groups: one with cgroup v2, one a controller with v1."""
    name = CGROUP_PREFIX + session
    return [*CGROUPS.glob(name), *CGROUPS.glob(f"*/{name}")]


def _remove_cgroup(cgroup: Path) -> None:
    for path, _, _ in os.walk(cgroup, topdown=False):
        Path(path).rmdir()


def _home() -> Path:
    return lab_folder() / "sessions"


def _is_owned(folder: Path) -> bool:
    try:
        with (folder / "owner").open("w") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
