"""Connections and listeners: real sockets on loopback."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from agent.adapters.procfs_sockets import ProcSockets
from agent.clock import SystemClock
from agent.host.process import PortConnections
from agent.host.reading import Known, Unknown

STOPPED_SERVER = """
import os, signal, socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.fixture
def sockets() -> ProcSockets:
    return ProcSockets(SystemClock())


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def listen(stack: ExitStack, family: int = socket.AF_INET) -> tuple[socket.socket, int]:
    server = stack.enter_context(socket.socket(family))
    server.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
    server.listen()
    return server, server.getsockname()[1]


def connect(stack: ExitStack, port: int, host: str = "127.0.0.1") -> socket.socket:
    return stack.enter_context(socket.create_connection((host, port)))


async def counted(
    sockets: ProcSockets, port: int, so: Callable[[PortConnections], bool], pid: int | None = None
) -> PortConnections:
    async with asyncio.timeout(10):
        while True:
            reading = await sockets.connections(pid or os.getpid(), port)
            assert isinstance(reading, Known), reading
            if so(reading.value):
                return reading.value
            await asyncio.sleep(0.01)


async def test_nobody_is_nobody(sockets: ProcSockets, stack: ExitStack) -> None:
    _, port = listen(stack)
    reading = await sockets.connections(os.getpid(), port)
    assert isinstance(reading, Known)
    assert reading.value == PortConnections(0, 0, 0)


async def test_clients_are_counted_once_though_both_ends_show(sockets: ProcSockets, stack: ExitStack) -> None:
    server, port = listen(stack)
    for _ in range(3):
        connect(stack, port)
        stack.enter_context(server.accept()[0])
    assert await counted(sockets, port, lambda c: c.established == 3) == PortConnections(3, 0, 0)


async def test_a_client_that_left_unnoticed_is_close_wait(sockets: ProcSockets, stack: ExitStack) -> None:
    server, port = listen(stack)
    client = connect(stack, port)
    stack.enter_context(server.accept()[0])
    connect(stack, port)
    stack.enter_context(server.accept()[0])
    client.close()
    assert await counted(sockets, port, lambda c: c.close_wait == 1) == PortConnections(1, 1, 0)


async def test_the_backlog_of_a_server_that_does_not_accept_is_told_apart(
    sockets: ProcSockets, stack: ExitStack
) -> None:
    server, port = listen(stack)
    connect(stack, port)
    connect(stack, port)
    stack.enter_context(server.accept()[0])
    assert await counted(sockets, port, lambda c: c.established == 2) == PortConnections(2, 0, 1)


async def test_ipv6_counts_too(sockets: ProcSockets, stack: ExitStack) -> None:
    if not Path("/proc/net/if_inet6").read_text():
        pytest.skip("this machine has no IPv6 address, not even on loopback")
    server, port = listen(stack, socket.AF_INET6)
    connect(stack, port, "::1")
    stack.enter_context(server.accept()[0])
    await counted(sockets, port, lambda c: c == PortConnections(1, 0, 0))
    reading = await sockets.listeners(port)
    assert isinstance(reading, Known)
    assert [one.address for one in reading.value] == ["::1"]


async def test_a_stopped_server_keeps_its_clients(sockets: ProcSockets, stack: ExitStack) -> None:
    child = stack.enter_context(subprocess.Popen([sys.executable, "-c", STOPPED_SERVER], stdout=subprocess.PIPE))
    stack.callback(child.kill)
    assert child.stdout is not None
    port = int(child.stdout.readline())
    connect(stack, port)
    assert await counted(sockets, port, lambda c: c.established == 1, child.pid) == PortConnections(1, 0, 1)


async def test_a_namespace_is_looked_at_through_a_process_in_it(sockets: ProcSockets, stack: ExitStack) -> None:
    _, port = listen(stack)
    connect(stack, port)
    ready = "print('in', flush=True); import sys; sys.stdin.read()"
    command = ["unshare", "--net", sys.executable, "-c", ready]
    child = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    assert child.stdin is not None
    assert child.stdout is not None
    stack.callback(child.stdin.close)
    if not child.stdout.readline():
        pytest.skip("no right to make a network namespace here")
    assert (await counted(sockets, port, lambda c: c.established == 1)).established == 1
    apart = await sockets.connections(child.pid, port)
    assert isinstance(apart, Known)
    assert apart.value == PortConnections(0, 0, 0)


async def test_a_process_that_is_gone_is_unknown_not_zero(sockets: ProcSockets) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert isinstance(await sockets.connections(child.pid, 80), Unknown)
    assert isinstance(await sockets.listeners(80, child.pid), Unknown)


async def test_who_listens_is_named(sockets: ProcSockets, stack: ExitStack) -> None:
    _, port = listen(stack)
    reading = await sockets.listeners(port)
    assert isinstance(reading, Known)
    (listener,) = reading.value
    assert (listener.address, listener.port) == ("127.0.0.1", port)
    assert isinstance(listener.pid, Known)
    assert listener.pid.value == os.getpid()


async def test_a_free_port_has_no_listener(sockets: ProcSockets, stack: ExitStack) -> None:
    server, port = listen(stack)
    server.close()
    reading = await sockets.listeners(port)
    assert isinstance(reading, Known)
    assert reading.value == ()


async def test_a_listener_that_cannot_be_named_is_still_there(stack: ExitStack, tmp_path: Path) -> None:
    (tmp_path / "self/net").mkdir(parents=True)
    heading = "  sl  local_address rem_address   st\n"
    row = "   0: 0100007F:1F90 00000000:0000 0A 0:0 00:0 0 0 0 4242 1 0 100 0 0 10 0\n"
    (tmp_path / "self/net/tcp").write_text(heading + row)
    reading = await ProcSockets(SystemClock(), tmp_path).listeners(8080)
    assert isinstance(reading, Known)
    (listener,) = reading.value
    assert (listener.inode, type(listener.pid)) == (4242, Unknown)


async def test_nothing_here_blocks_the_loop(sockets: ProcSockets, stack: ExitStack) -> None:
    _, port = listen(stack)
    with blockbuster_ctx():
        assert isinstance(await sockets.connections(os.getpid(), port), Known)
        assert isinstance(await sockets.listeners(port), Known)
