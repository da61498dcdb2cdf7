"""Connections that a client keeps open without using them end by themselves, and no client has too many."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web

from agent.adapters import listen
from agent.api import door
from agent.api.door import Crowd, Door, patient
from tests.api.conftest import open_rig

BIG = 16 << 20


@asynccontextmanager
async def serving(crowd: Crowd) -> AsyncIterator[int]:
    """The port of a small application behind the door."""

    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(0.6)
        return web.Response(text="late")

    async def big(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * BIG)

    app = web.Application(middlewares=[patient])
    app.add_routes([web.get("/slow", slow), web.get("/big", big)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    server = runner.server
    assert server is not None
    socket = listen.bind("127.0.0.1", 0)
    accepting = await listen.serve(socket, lambda: Door(server, crowd, access_log=None), None)
    try:
        yield socket.getsockname()[1]
    finally:
        accepting.close()
        socket.close()
        await runner.cleanup()


@asynccontextmanager
async def client(port: int, limit: int = 65536) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=limit)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the server ended the connection; only a busy machine needs more than a moment for it."""
    async with asyncio.timeout(20):
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            return True
    return True


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "HEAD_S", 0.3)
    monkeypatch.setattr(door, "IDLE_S", 0.3)
    monkeypatch.setattr(door, "SURE_S", 0.2)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("begun", [b"", b"GET /slow HT", b"GET /slow HTTP/1.1\r\nHost: a\r\nX-Slow: "])
async def test_a_head_that_never_ends_ends_the_connection(begun: bytes) -> None:
    """However much of it trickles in meanwhile."""
    async with serving(Crowd(8, 8)) as port, client(port) as (reader, writer):
        writer.write(begun)
        trickle = asyncio.create_task(trickled(writer, b"a"))
        assert await ended(reader)
        trickle.cancel()


async def trickled(writer: asyncio.StreamWriter, byte: bytes) -> None:
    while not writer.is_closing():
        writer.write(byte)
        await asyncio.sleep(0.05)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("first", [b"", b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"], ids=["first", "second"])
async def test_a_host_that_stood_still_costs_no_client_its_answer(first: bytes) -> None:
    """A virtual machine that was paused, a processor that others had: the head came in time, and waits to be read."""
    async with serving(Crowd(8, 8)) as port, client(port) as (reader, writer):
        writer.write(first)
        if first:
            await reader.readuntil(b"late")
        else:
            await asyncio.sleep(0.05)  # the connection is made
        raw = writer.get_extra_info("socket").dup()
        raw.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        raw.close()
        time.sleep(1.0)  # the whole loop stands still, the server's too
        assert b"200 OK" in await reader.readuntil(b"late")


@pytest.mark.usefixtures("impatient")
async def test_the_second_head_on_a_connection_must_come_in_time_too() -> None:
    async with serving(Crowd(8, 8)) as port, client(port) as (reader, writer):
        writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"200 OK" in await reader.readuntil(b"late"), "an answer may take longer than a head"
        writer.write(b"GET /slow HTTP/1.1\r\nHost:")
        assert await ended(reader)


@pytest.mark.usefixtures("impatient")
async def test_a_reader_that_stops_reading_is_let_go() -> None:
    crowd = Crowd(8, 8)
    async with serving(crowd) as port, client(port, limit=1024) as (reader, writer):
        writer.write(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"\r\n")
        await emptied(crowd)


async def test_a_slow_reader_that_goes_on_reading_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "IDLE_S", 1.5)  # less than it all takes, and more than a busy machine's pause
    async with serving(Crowd(8, 8)) as port, client(port) as (reader, writer):
        writer.write(b"GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        size = 0
        while more := await reader.read(1 << 17):
            size += len(more)
            await asyncio.sleep(0.02)
        assert size > BIG


@pytest.mark.parametrize("crowd", [Crowd(3, 8), Crowd(8, 3)], ids=["of all", "of one address"])
async def test_more_connections_than_are_allowed_are_ended_and_the_others_live(crowd: Crowd) -> None:
    async with serving(crowd) as port:
        async with client(port) as (first, asks), client(port), client(port):
            async with client(port) as (reader, _):
                assert await ended(reader)
            asks.write(b"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert b"late" in await first.read()
        await emptied(crowd)
    assert not crowd.by


async def emptied(crowd: Crowd) -> None:
    """Until the last connection has ended; only a busy machine needs more than a moment for it."""
    async with asyncio.timeout(20):
        while crowd.count:
            await asyncio.sleep(0.02)


def test_a_socket_that_an_agent_answers_on_is_not_taken_away(tmp_path: Path) -> None:
    """Another state folder has another lock: only the socket itself tells that somebody serves it."""
    first, second = open_rig(tmp_path / "first"), open_rig(tmp_path / "second")
    second.site["paths"]["socket"] = first.site["paths"]["socket"]
    try:
        first.start()
        assert first.daemon is not None
        refused = second.launch()
        assert refused.wait(30) == 1
        said = second.log.read_text()
        assert f"cannot listen on {first.folder}/agent.sock: pid {first.daemon.pid} listens there" in said
        assert "another paths.socket" in said
        assert first.api("/v1/deployments") == []
    finally:
        second.close()
        first.close()
