"""Servers on one listener that replace each other."""

from __future__ import annotations

import asyncio
import socket

import pytest

from agent.adapters import listen


class Greeter(asyncio.Protocol):
    """Answers whatever it is sent."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert isinstance(self.transport, asyncio.WriteTransport)
        self.transport.write(b"hello")
        self.transport.close()


@pytest.mark.parametrize("turns", range(6))
async def test_who_comes_while_a_server_is_replaced_is_answered(turns: int) -> None:
    """At any turn of the loop: waiting to be accepted, accepted and not begun, begun."""
    listener = listen.bind("127.0.0.1", 0)
    before = await listen.serve(listener, Greeter, None)
    with socket.create_connection(listener.getsockname(), timeout=20) as client:
        client.sendall(b"anybody?")
        now = await listen.serve(listener, Greeter, None) if turns % 2 else None
        for _ in range(turns):
            await asyncio.sleep(0)
        now = now or await listen.serve(listener, Greeter, None)
        await listen.leave(before)
        assert await asyncio.to_thread(client.recv, 100) == b"hello"
    now.close()
    listener.close()
