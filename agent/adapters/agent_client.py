"""HTTP to the agent's own API for the command line: sockets and nothing else, so that a command starts at once."""

from __future__ import annotations

import json
import socket

from agent.errors import AgentError, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing and dataclasses cost more than the whole call
    from collections.abc import Iterator
    from typing import Any

CHUNK = 65536


class ApiError(AgentError):
    """An error that the agent answered: its own code, message, hint and details."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error.get("message", "")), advice=str(error.get("hint", "")))
        self.kind = str(error.get("code", "internal"))
        self.details = dict(error.get("details") or {})

    def as_dict(self) -> dict[str, Any]:
        return {"code": self.kind, "message": self.text, "hint": self.advice, "details": self.details}


class Tls:
    """Files (PEM) for HTTPS, each empty where there is none: the CA of the agent's certificate instead of the
    system's, and the client's own certificate with its key."""

    __slots__ = ("ca", "certificate", "key")

    def __init__(self, ca: str = "", certificate: str = "", key: str = "") -> None:
        self.ca = ca
        self.certificate = certificate
        self.key = key

    def wrap(self, connection: socket.socket, host: str) -> socket.socket:
        """Raises OSError where a file cannot be used or the other end is not who it should be."""
        import ssl  # 30 ms that plain HTTP and the unix socket need not pay

        context = ssl.create_default_context(cafile=self.ca or None)
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key or None)
        return context.wrap_socket(connection, server_hostname=host)


class Target:
    """Where the agent is: a unix socket, or host and port with a token; HTTPS with `tls`."""

    __slots__ = ("host", "port", "socket", "tls", "token")

    def __init__(
        self, socket: str | None, host: str = "", port: int = 0, token: str = "", tls: Tls | None = None
    ) -> None:
        self.socket = socket
        self.host = host
        self.port = port
        self.token = token
        self.tls = tls

    @property
    def name(self) -> str:
        """As the `Host` header has it."""
        if self.socket:
            return "agent"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return self.socket or f"http{'s' if self.tls else ''}://{self.name}"


class Client:
    """One connection a request; the agent closes it."""

    def __init__(self, target: Target, timeout_s: float = 75.0) -> None:
        self._target = target
        self._timeout = timeout_s

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of the answer. Raises ApiError for an error answer and Unreachable where none comes."""
        status, chunks = self._send(method, path, body, self._timeout)
        raw = b"".join(chunks)
        return _answer(status, raw)

    def raw(self, path: str) -> bytes:
        """A body that is no JSON."""
        status, chunks = self._send("GET", path, None, self._timeout)
        raw = b"".join(chunks)
        if status >= 400:
            _answer(status, raw)
        return raw

    def lines(self, path: str) -> Iterator[str]:
        """Lines of a streamed answer, as they come, without a deadline."""
        status, chunks = self._send("GET", path, None, None)
        if status >= 400:
            _answer(status, b"".join(chunks))
        rest = b""
        for chunk in chunks:
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in whole)
        if rest:
            yield rest.decode("utf-8", "replace")

    def events(self, path: str) -> Iterator[Any]:
        """Server-sent events."""
        for line in self.lines(path):
            if line.startswith("data:"):
                yield json.loads(line[5:])

    def _send(self, method: str, path: str, body: Any, timeout: float | None) -> tuple[int, Iterator[bytes]]:
        payload = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", f"Host: {self._target.name}"]
        head += ["Connection: close", f"Content-Length: {len(payload)}"]
        if payload:
            head.append("Content-Type: application/json")
        if self._target.token:
            head.append(f"Authorization: Bearer {self._target.token}")
        try:
            connection = self._connect()
            try:
                connection.settimeout(timeout)
                connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + payload)
                return _read(connection)
            except BaseException:
                connection.close()
                raise
        except OSError as error:
            raise Unreachable(where=self._target, why=error.strerror or error) from error

    def _connect(self) -> socket.socket:
        if self._target.socket is None:
            return self._over_tcp(self._target)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(5.0)
            connection.connect(self._target.socket)
        except BaseException:
            connection.close()
            raise
        return connection

    @staticmethod
    def _over_tcp(target: Target) -> socket.socket:
        connection = socket.create_connection((target.host, target.port), timeout=5.0)
        if target.tls is None:
            return connection
        try:
            return target.tls.wrap(connection, target.host)
        except BaseException:
            connection.close()
            raise


def _read(connection: socket.socket) -> tuple[int, Iterator[bytes]]:
    """Status and body of one answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(CHUNK)
        if not more:
            raise ConnectionResetError(104, "the agent closed the connection")
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    chunked = any(line.lower().startswith("transfer-encoding:") and "chunked" in line.lower() for line in lines)
    body = _rest(connection, rest)
    return int(lines[0].split()[1]), _dechunk(body) if chunked else body


def _rest(connection: socket.socket, first: bytes) -> Iterator[bytes]:
    with connection:
        if first:
            yield first
        while chunk := connection.recv(CHUNK):
            yield chunk


def _dechunk(body: Iterator[bytes]) -> Iterator[bytes]:
    """The data of a chunked body, each piece as soon as it is there."""
    data = b""
    for piece in body:
        data += piece
        while b"\r\n" in data:
            size_line, _, rest = data.partition(b"\r\n")
            size = int(size_line.split(b";")[0] or b"0", 16)
            if size == 0:
                return
            if len(rest) < size + 2:
                break
            yield rest[:size]
            data = rest[size + 2 :]


def _answer(status: int, raw: bytes) -> Any:
    try:
        data = json.loads(raw or b"null")
    except ValueError:
        data = None
    if status < 400:
        return data
    error = data.get("error") if isinstance(data, dict) else None
    raise ApiError(error or {"code": f"http.{status}", "message": f"cannot do that: the agent answered {status}"})
