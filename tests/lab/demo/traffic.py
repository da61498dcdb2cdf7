"""Clients that ask for long answers, one after the other, and wait for as long as it takes."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress

BODY = {"model": "demo", "prompt": "Once upon a time", "max_tokens": 20000, "ignore_eos": True, "stream": True}
PATIENCE_S = 0.2


class Traffic:
    """A few clients of 127.0.0.1:`port`, each with one streamed completion at a time."""

    def __init__(self, port: int, clients: int) -> None:
        self.tokens = 0
        self.cut = 0
        self._port = port
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._client, daemon=True) for _ in range(clients)]

    def start(self) -> None:
        """They begin to ask."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """They hang up."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(5)

    def _client(self) -> None:
        while not self._stop.is_set():
            with suppress(OSError):
                self._ask()
            self._stop.wait(PATIENCE_S)  # the engine is not there, or just went: ask again

    def _ask(self) -> None:
        body = json.dumps(BODY).encode()
        with socket.create_connection(("127.0.0.1", self._port), timeout=5) as connection:
            head = f"POST /v1/completions HTTP/1.1\r\nHost: demo\r\nContent-Length: {len(body)}\r\n"
            connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            connection.settimeout(PATIENCE_S)
            self._read(connection)

    def _read(self, connection: socket.socket) -> None:
        """Tokens until the answer ends, breaks off, or the demo does."""
        begun = False
        while not self._stop.is_set():
            try:
                part = connection.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError:
                part = b""
            if not part:
                self._note(cut=begun)
                return
            begun = True
            self._note(tokens=part.count(b"data: {"))

    def _note(self, tokens: int = 0, cut: bool = False) -> None:
        with self._lock:
            self.tokens += tokens
            self.cut += cut
