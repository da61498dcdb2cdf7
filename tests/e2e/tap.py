"""A wire tap on an Engine's socket: passes everything on, and keeps the bodies of `POST /containers/create`."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

CREATE = re.compile(rb"POST \S*/containers/create\S* HTTP/1\.1\r\n(.*?)\r\n\r\n", re.DOTALL)
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class Tap:
    """What went through, one list of bytes a connection."""

    def __init__(self, path: Path, engine: Path) -> None:
        self.path = path
        self._engine = engine
        self._sent: list[bytearray] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)

    def created(self) -> list[dict[str, Any]]:
        """The bodies that were posted to create engines, in their order; throw-away trials of preflight left out."""
        found = []
        for sent in self._sent:
            for match in CREATE.finditer(bytes(sent)):
                length = LENGTH.search(match[1])
                assert length is not None
                found.append(json.loads(bytes(sent)[match.end() : match.end() + int(length[1])]))
        return [body for body in found if "recipe-agent.trial" not in (body.get("Labels") or {})]

    def accept(self) -> None:
        """Until the listener is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(str(self._engine))
            sent = bytearray()
            self._sent.append(sent)
            threading.Thread(target=pump, args=(client, engine, sent), daemon=True).start()
            threading.Thread(target=pump, args=(engine, client, None), daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def pump(source: socket.socket, target: socket.socket, kept: bytearray | None) -> None:
    """One direction, to its end."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            if kept is not None:
                kept += data
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
    if kept is None:  # the engine's side has the last word
        source.close()
        target.close()


@contextmanager
def tapped(folder: Path, engine: Path) -> Iterator[Tap]:
    """A tap for as long as the block lasts; its path is a Docker socket like the engine's."""
    tap = Tap(folder / "tap.sock", engine)
    thread = threading.Thread(target=tap.accept)
    thread.start()
    try:
        yield tap
    finally:
        tap.close()
        thread.join(5)
