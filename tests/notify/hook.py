"""A webhook on loopback that keeps what it is sent, and may be told to refuse."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Hook:
    """`told` are the bodies of POSTs, `beats` the paths of GETs; every answer has `status`."""

    port: int = 0
    status: int = 200
    told: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)
    beats: queue.Queue[str] = field(default_factory=queue.Queue)
    refused: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def message(self, within: float = 30.0) -> dict[str, Any]:
        """The next message that it took."""
        return self.told.get(timeout=within)


@contextmanager
def webhook() -> Iterator[Hook]:
    """Serves until the end of the block."""
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if hook.status < 400:
                hook.told.put(body)
            else:
                hook.refused.release()
            self.answer()

        def do_GET(self) -> None:
            hook.beats.put(self.path)
            self.answer()

        def answer(self) -> None:
            self.send_response(hook.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
