"""An HTTP/1.1 server on asyncio that behaves like uvicorn: keep-alive, chunked streams, who hung up, graceful end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

from .log import TITLES, access

_KEEP_ALIVE_S = 5.0  # real seconds: uvicorn closes an idle connection then


@dataclass(slots=True)
class Request:
    """A parsed request."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    peer: str

    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return json.loads(self.body)


@dataclass(slots=True)
class Reply:
    """The answer to one request. `status` is 0 until something was sent."""

    connection: Connection
    request: Request
    status: int = 0
    sent: int = 0
    streaming: bool = False
    began: float = field(default_factory=time.monotonic)

    def head(self, status: int, headers: dict[str, str]) -> None:
        """Status line and headers; the access log has its line from here on."""
        self.status = status
        base = {**self.connection.site.headers(), **headers}
        if not self.connection.keep:
            base["connection"] = "close"
        lines = "".join(f"{k}: {v}\r\n" for k, v in base.items())
        self.connection.write(f"HTTP/1.1 {status} {TITLES.get(status, 'Unknown')}\r\n{lines}\r\n".encode())
        self._log(status)

    def _log(self, status: int) -> None:
        if self.connection.site.access_log:
            query = f"?{self.request.query}" if self.request.query else ""
            access(self.request.peer, f"{self.request.method} {self.request.path}{query}", status)

    def close(self) -> None:
        """The request is over; one whose client went before an answer is booked as 200, as seen."""
        if not self.status:
            self.status = 200
            self._log(200)

    def send(self, status: int, body: bytes = b"", kind: str = "application/json", **more: str) -> None:
        """A whole answer."""
        headers = {"content-length": str(len(body))} | ({"content-type": kind} if body else {})
        self.head(status, headers | {k.replace("_", "-"): v for k, v in more.items()})
        self.connection.write(body)
        self.sent = len(body)

    def json(self, value: Any, status: int = 200) -> None:
        """A whole answer in JSON."""
        self.send(status, json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())

    def error(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        """An error as OpenAI's API words it."""
        self.json({"error": {"message": message, "type": kind, "param": param, "code": status}}, status)

    def stream(self) -> None:
        """Begin a stream of events."""
        self.streaming = True
        self.head(200, {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"})

    async def event(self, data: str) -> None:
        """One event; waits while the client does not read."""
        body = f"data: {data}\n\n".encode()
        await self.connection.writable.wait()
        self.connection.write(b"%x\r\n%s\r\n" % (len(body), body))
        self.sent += len(body)

    def end(self) -> None:
        """The end of a stream."""
        self.connection.write(b"0\r\n\r\n")


Handler = Callable[[Request, Reply], Awaitable[None]]


def uvicorn() -> dict[str, str]:
    """What uvicorn says with every answer."""
    return {"date": formatdate(usegmt=True), "server": "uvicorn", "vary": "Origin"}


class Site:
    """A handler with all its connections; `headers` gives what every answer has."""

    def __init__(
        self, handler: Handler, *, access_log: bool = True, headers: Callable[[], dict[str, str]] = uvicorn
    ) -> None:
        self.handler = handler
        self.access_log = access_log
        self.headers = headers
        self.connections: set[Connection] = set()
        self.closing = False

    def protocol(self) -> Connection:
        """For loop.create_server."""
        return Connection(self)

    def close_all(self) -> None:
        """Close every connection, whatever it serves."""
        for connection in list(self.connections):
            connection.close()

    def close_idle(self) -> None:
        """Close what serves no request; the others close when they are done."""
        self.closing = True
        for connection in list(self.connections):
            if connection.task is None:
                connection.close()


class Connection(asyncio.Protocol):
    """One client. It serves a request at a time; when the client goes, the request's task is cancelled."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.buffer = bytearray()
        self.transport: asyncio.Transport | None = None
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.keep = True
        self.peer = ""
        self.continued = False
        self.writable = asyncio.Event()
        self.writable.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.peer = f"{host}:{port}"
        self.site.connections.add(self)

    def connection_lost(self, _error: Exception | None) -> None:
        self.site.connections.discard(self)
        self.transport = None
        if self.timer:
            self.timer.cancel()
        if self.task:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self._serve_next()

    def write(self, data: bytes) -> None:
        """To the client, if it is still there."""
        if self.transport is not None:
            self.transport.write(data)

    def close(self) -> None:
        """Hang up."""
        if self.transport is not None:
            self.transport.close()

    def _serve_next(self) -> None:
        if self.task is not None:
            return
        if self.timer:
            self.timer.cancel()
        try:
            request = self._take()
        except ValueError:
            self.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 28\r\nconnection: close\r\n\r\n"
                       b"Invalid HTTP request received")  # fmt: skip
            self.close()
            return
        if request is not None:
            self.task = asyncio.get_running_loop().create_task(self._serve(request))
            self.task.add_done_callback(self._served)

    async def _serve(self, request: Request) -> None:
        await self.site.handler(request, Reply(self, request))

    def _served(self, task: asyncio.Task[None]) -> None:
        self.task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self.close()
            raise error
        if not self.keep or self.site.closing:
            self.close()
            return
        self.timer = asyncio.get_running_loop().call_later(_KEEP_ALIVE_S, self.close)
        if self.buffer:
            self._serve_next()

    def _take(self) -> Request | None:
        """The next whole request, None while parts are missing. Raises ValueError."""
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        first, *rest = self.buffer[:end].decode("latin-1").split("\r\n")
        method, target, version = first.split(" ")
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in rest)}
        found = self._body(end + 4, headers)
        if found is None:
            if headers.get("expect", "").lower() == "100-continue" and not self.continued:
                self.continued = True
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return None
        body, after = found
        del self.buffer[:after]
        self.continued = False
        wish = headers.get("connection", "").lower()
        self.keep = wish == "keep-alive" if version == "HTTP/1.0" else wish != "close"
        path, _, query = target.partition("?")
        return Request(method, path, query, headers, body, self.peer)

    def _body(self, start: int, headers: dict[str, str]) -> tuple[bytes, int] | None:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunked(start)
        end = start + int(headers.get("content-length", "0"))
        return (bytes(self.buffer[start:end]), end) if len(self.buffer) >= end else None

    def _chunked(self, at: int) -> tuple[bytes, int] | None:
        parts: list[bytes] = []
        while (line := self.buffer.find(b"\r\n", at)) >= 0:
            size = int(bytes(self.buffer[at:line]).partition(b";")[0], 16)
            at = line + 2 + size + 2
            if len(self.buffer) < at:
                return None
            if size == 0:
                return b"".join(parts), at
            parts.append(bytes(self.buffer[line + 2 : line + 2 + size]))
        return None
