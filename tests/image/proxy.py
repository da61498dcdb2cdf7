"""A TCP proxy before a server, which can cut its connections, hold them, or be gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Proxy:
    """Passes bytes both ways. `cut_after`: bytes from the server until a connection is cut, for the next `cuts`."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.cut_after: int | None = None
        self.cuts = 0
        self.made = 0
        """Connections so far."""
        self.flowing = asyncio.Event()
        self.flowing.set()
        """Clear it, and nothing comes from the server any more."""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Nobody listens any more, and what was open is cut."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        up = asyncio.ensure_future(self._pass(reader, back, None))
        try:
            await self._pass(there, writer, self)
        finally:
            up.cancel()
            for one in (back, writer):
                one.close()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cutter: Proxy | None) -> None:
        passed = 0
        with suppress(OSError):
            while data := await reader.read(1 << 14):
                if cutter is not None:
                    await cutter.flowing.wait()
                    passed += len(data)
                    if cutter.cuts and cutter.cut_after is not None and passed > cutter.cut_after:
                        cutter.cuts -= 1
                        return
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def before(port: int) -> AsyncIterator[Proxy]:
    """A proxy before 127.0.0.1:`port`."""
    proxy = Proxy(port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
