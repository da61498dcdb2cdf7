"""The engine core's end of its connection with the API server: JSON lines over a socket."""

from __future__ import annotations

import json
import select
import socket
from typing import Any


class Line:
    """Messages both ways. When the server is gone the line falls silent, and its owner lives on."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._buffer = b""

    def hear(self, patience: float) -> list[dict[str, Any]]:
        """Messages that are there, after at most `patience` real seconds for the first byte."""
        alive = self.socket.fileno() >= 0
        ready, _, _ = select.select([self.socket] if alive else [], [], [], patience)
        if not ready:
            return []
        data = self.socket.recv(1 << 20)
        if not data:
            self.socket.close()
            return []
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def say(self, **message: Any) -> None:
        """Send a message, if there is anybody to hear it."""
        if self.socket.fileno() < 0:
            return
        try:
            self.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self.socket.close()
