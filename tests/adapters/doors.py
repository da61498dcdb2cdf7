"""A door to units of engines as systemd opens it (`Accept=yes`), for hosts without systemd: a process a connection."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

COMMAND = (sys.executable, "-m", "agent.adapters.process_launcher")
REPOSITORY = Path(__file__).parents[2]


def launcher(connection: socket.socket, stderr: int | None = None) -> subprocess.Popen[str]:
    """The launcher with a connection as its standard input; it does not keep it open in here."""
    with connection:
        return subprocess.Popen(
            COMMAND, stdin=connection, stderr=stderr, cwd=REPOSITORY, text=True, start_new_session=True
        )


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Path]:
    """The path of a socket behind which launchers start, until the block ends; they themselves go on."""
    path = folder / "door.sock"
    children: list[subprocess.Popen[str]] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        waiter = threading.Thread(target=serve, args=(listener, children))
        waiter.start()
        try:
            yield path
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            waiter.join()
            for child in children:
                child.kill()  # a wrapper that a test left, or nobody: it is ours to wait for
                child.wait()


def serve(listener: socket.socket, children: list[subprocess.Popen[str]]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # shut down
            return
        children.append(launcher(connection))
