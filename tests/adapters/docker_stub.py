"""A Docker Engine that says what a test wants: HTTP on a unix socket, canned answers, faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


class Hang:
    """No answer, ever."""


class Drop:
    """The connection is closed instead of an answer."""


@dataclass(frozen=True)
class Chunks:
    """A streamed answer: pieces as they are, then the end, a silence, or a drop midway."""

    pieces: tuple[bytes, ...]
    then: str = "end"


Answer = Any
"""(status, JSON), Hang, Drop or Chunks; a callable is asked for one of them."""

VERSION = {"Version": "20.10.24", "ApiVersion": "1.41", "Components": [{"Name": "Engine"}]}


@dataclass
class StubEngine:
    """`answers` by "METHOD /path" without the version's prefix; `asked` is what came, with the prefix; `alone` those
    of it that asked for a connection that ends with them."""

    socket: Path
    answers: dict[str, Answer | Callable[[], Answer]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"unix://{self.socket}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, any number of requests."""
        try:
            while line := await reader.readline():
                method, target, _ = line.decode().split(" ", 2)
                closes = await self._body(reader)
                self.asked.append(f"{method} {unquote(target)}")
                if closes:
                    self.alone.append(self.asked[-1])
                answer = self._answer(method, urlsplit(target).path)
                if not await _give(writer, answer, closes) or closes:
                    return
        except ConnectionError:
            return
        finally:
            writer.close()

    async def _body(self, reader: asyncio.StreamReader) -> bool:
        """Whether the client asks for the end of the connection, which an Engine grants and says."""
        length, closes = 0, False
        while (line := await reader.readline()).strip():
            name, _, value = line.decode().partition(":")
            if name.lower() == "content-length":
                length = int(value)
            closes = closes or (name.lower(), value.strip().lower()) == ("connection", "close")
        await reader.readexactly(length)
        return closes

    def _answer(self, method: str, path: str) -> Answer:
        parts = path.split("/")
        bare = "/" + "/".join(parts[2:] if parts[1].startswith("v1.") else parts[1:])
        answer = self.answers.get(f"{method} {bare}", (404, {"message": f"no route {method} {bare}"}))
        return answer() if callable(answer) and not isinstance(answer, type) else answer


async def _give(writer: asyncio.StreamWriter, answer: Answer, closes: bool) -> bool:
    """Whether the connection lives on."""
    end = "Connection: close\r\n" if closes else ""
    if answer is Hang:
        await asyncio.sleep(3600)
    if answer is Drop:
        return False
    if isinstance(answer, Chunks):
        writer.write(f"HTTP/1.1 200 OK\r\n{end}Transfer-Encoding: chunked\r\n\r\n".encode())
        for piece in answer.pieces:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()
        if answer.then == "silence":
            await asyncio.sleep(3600)
        if answer.then == "drop":
            return False
        writer.write(b"0\r\n\r\n")
    else:
        status, document = answer
        body = b"" if document is None else json.dumps(document).encode()
        phrase = HTTPStatus(status).phrase
        kind = "Content-Type: application/json\r\n"
        head = f"HTTP/1.1 {status} {phrase}\r\n{end}{kind}Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
    await writer.drain()
    return True


@asynccontextmanager
async def serving(folder: Path, answers: dict[str, Answer]) -> AsyncIterator[StubEngine]:
    """A stub that knows its version and `answers`."""
    stub = StubEngine(folder / "docker.sock", {"GET /version": (200, VERSION), **answers})
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(stub.serve(reader, writer))
        tasks.add(task)

    server = await asyncio.start_unix_server(connected, stub.socket)
    try:
        yield stub
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
