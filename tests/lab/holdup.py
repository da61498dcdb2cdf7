"""A unix socket in front of a Docker Engine's that passes everything on, and holds removals back while it is told to.

with holdup.running(folder / "docker.sock", engine.socket) as front:
    front.holds.set()       # DELETE /containers/… is not passed on, and so not answered
    front.holds.clear()     # what was held back goes to the Engine now
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CHUNK = 1 << 16


class Front:
    """Connections of clients, each with one of its own to the Engine."""

    def __init__(self, path: Path, engine: Path) -> None:
        self.path = path
        self.holds = threading.Event()
        self.held = 0
        """Removals that were asked for while it held."""
        self._engine = engine
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._over = False

    def serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as engine, client, suppress(OSError):
            engine.connect(str(self._engine))
            answers = threading.Thread(target=self._copy, args=(engine, client), daemon=True)
            answers.start()
            while data := client.recv(CHUNK):
                if data.startswith(b"DELETE ") and b"/containers/" in data.partition(b"\r\n")[0]:
                    self._hold()
                engine.sendall(data)
            with suppress(OSError):
                engine.shutdown(socket.SHUT_WR)
            answers.join()

    def _hold(self) -> None:
        self.held += self.holds.is_set()
        while self.holds.is_set() and not self._over:
            time.sleep(0.05)

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._over = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def running(path: Path, engine: Path) -> Iterator[Front]:
    """It passes on until the end of the block."""
    front = Front(path, engine)
    serving = threading.Thread(target=front.serve, daemon=True)
    serving.start()
    try:
        yield front
    finally:
        front.close()
        serving.join()
