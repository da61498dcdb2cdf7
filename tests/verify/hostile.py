"""An engine of ill will on loopback: what it streams, counts and says of itself is a test's choice."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
LETTERS = 3
"""Of a token, by its tokenizer."""

Script = Callable[["Hostile", Mapping[str, Any], asyncio.StreamWriter], Awaitable[None]]


def event(**more: Any) -> bytes:
    return b"data: " + json.dumps(more).encode() + b"\n\n"


def piece(text: str, finish: str | None = None, **more: Any) -> bytes:
    return event(choices=[{"index": 0, "text": text, "finish_reason": finish}], **more)


def usage(prompt: Any, completion: Any, **more: Any) -> bytes:
    return event(choices=[], usage={"prompt_tokens": prompt, "completion_tokens": completion, **more})


DONE = b"data: [DONE]\n\n"


def tokens_of(text: str) -> int:
    return max(1, len(text) // LETTERS)


def answer(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def counting(prompt: float = 1.0, made: float = 1.0, **more: Any) -> Any:
    """A token a piece at the engine's pace, ended as OpenAI's API ends, and so many times of the work told as done."""

    async def script(engine: Hostile, asked: Mapping[str, Any], out: asyncio.StreamWriter) -> None:
        out.write(HEAD)
        read, most = tokens_of(str(asked["prompt"])), int(asked["max_tokens"])
        engine.read += read
        times = engine.begin()
        await asyncio.sleep(read / engine.prefill)
        for number in range(most):
            await asyncio.sleep(1 / engine.pace)
            engine.made += 1
            times.append(time.monotonic())
            out.write(piece(" word", "length" if number == most - 1 else None))
            await out.drain()
        out.write(usage(int(read * prompt), int(most * made), **more) + DONE)

    return script


honest = counting()


@dataclass
class Hostile:
    """One server; `script` answers completions, `tokenizer` and `metrics` are whole answers, or None for what an honest
    engine says."""

    script: Script = honest
    tokenizer: Callable[[str], Awaitable[bytes]] | None = None
    metrics: Callable[[], bytes] | None = None
    pace: float = 200.0
    prefill: float = 20_000.0
    port: int = 0
    running: int = 0
    """Completions that are served now."""
    read: int = 0
    made: int = 0
    foreign: int = 0
    """Requests of somebody else that run now."""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Paths and headers of what came."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    written: list[list[float]] = field(default_factory=list)
    """For each completion, when it began and when each of its tokens was written."""
    open: set[asyncio.Task[Any]] = field(default_factory=set)

    def begin(self) -> list[float]:
        """A completion begins: where the times of its tokens go."""
        self.written.append([time.monotonic()])
        return self.written[-1]

    def gave(self, tokens: int) -> float:
        """Tokens a second of the last completion of so many: fewer than its pace where the machine has other work."""
        *_, times = [one for one in self.written if len(one) == tokens + 1]
        return (tokens - 1) / (times[-1] - times[1])

    def began_after(self, tokens: int) -> float:
        """Seconds until the first token of the last completion of so many."""
        *_, times = [one for one in self.written if len(one) == tokens + 1]
        return times[1] - times[0]

    async def serve(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        """One connection, whose task is known until it is closed."""
        task = asyncio.current_task()
        assert task is not None
        self.open.add(task)
        try:
            await self._serve(reader, out)
        except asyncio.CancelledError:
            return  # asyncio's own callback of a connection logs a cancelled one as a fault
        finally:
            out.transport.abort()
            self.open.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            path = first.split()[1]
            self.asked.append((path, headers))
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            await self._answer(path, body, reader, out)
            await out.drain()
            out.close()
            await out.wait_closed()

    async def _answer(self, path: str, body: bytes, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        if path == "/v1/completions":
            self.bodies.append(json.loads(body))
            await self._complete(self.bodies[-1], reader, out)
        elif path == "/tokenize":
            text = str(json.loads(body)["prompt"])
            count = json.dumps({"count": tokens_of(text)}).encode()
            out.write(await self.tokenizer(text) if self.tokenizer else answer("200 OK", count))
        elif path == "/metrics":
            out.write(answer("200 OK", self.metrics() if self.metrics else self.exposition()))
        else:
            out.write(answer("404 Not Found", b"{}"))

    async def _complete(self, asked: dict[str, Any], reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        """Until it is answered, or its client hangs up, as real engines do."""
        self.running += 1
        work = asyncio.ensure_future(self.script(self, asked, out))
        gone = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await work
        finally:
            work.cancel()
            gone.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)
            self.running -= 1

    def exposition(self) -> bytes:
        lines = (
            f'vllm:num_requests_running{{engine="0"}} {self.running + self.foreign}',
            'vllm:num_requests_waiting{engine="0"} 0',
            f'vllm:prompt_tokens_total{{engine="0"}} {self.read}',
            f'vllm:generation_tokens_total{{engine="0"}} {self.made}',
        )
        return "\n".join((*lines, "")).encode()


@asynccontextmanager
async def served(engine: Hostile) -> AsyncIterator[Hostile]:
    """It listens on a port of its own until the block ends."""
    server = await asyncio.start_server(engine.serve, "127.0.0.1", 0, limit=1 << 26)
    engine.port = server.sockets[0].getsockname()[1]
    try:
        yield engine
    finally:
        server.close()
        for task in engine.open:
            task.cancel()
        await asyncio.gather(*engine.open, return_exceptions=True)
        await server.wait_closed()
