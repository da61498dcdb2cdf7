"""One client's connection: bounded in number and in patience, its refusals in the form of all others."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import structlog
from aiohttp import web

from agent.api.errors import HttpError, error_body

log = structlog.get_logger()

HEAD_S = 10.0
"""How long a client may take to send the first whole head of a request."""
IDLE_S = 75.0
"""How long a connection may rest between two requests, or take a finished answer without moving."""
SURE_S = 1.0
"""What came while the agent itself stood still (a paused virtual machine, a host without a free processor) is taken up
before anybody is called late: a timer that is due as well would run before the request that it is about."""


@dataclass(slots=True)
class Crowd:
    """Open connections of one listener, all and by address."""

    most: int
    most_of_one: int
    count: int = 0
    by: Counter[str] = field(default_factory=Counter)

    def enter(self, who: str) -> bool:
        """Whether one more fits; counted either way, until `leave`."""
        self.count += 1
        self.by[who] += 1
        return self.count <= self.most and (not who or self.by[who] <= self.most_of_one)

    def leave(self, who: str) -> None:
        self.count -= 1
        self.by[who] -= 1
        if self.by[who] <= 0:
            del self.by[who]


class Door(web.RequestHandler):
    """aiohttp's protocol with what it leaves open: it waits for ever for the head of a request.

    A timer runs whenever no request is being answered. `busy` and `idle` are called by the middleware.
    """

    __slots__ = ("_crowd", "_sure", "_timer", "_unsent", "_who")

    def __init__(self, manager: web.Server, crowd: Crowd, **options: Any) -> None:
        super().__init__(manager, loop=asyncio.get_running_loop(), keepalive_timeout=IDLE_S, **options)
        self._crowd = crowd
        self._who = ""
        self._timer: asyncio.TimerHandle | None = None
        self._sure = False
        self._unsent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._who = str(peer[0]) if isinstance(peer, tuple) else ""
        if self._crowd.enter(self._who):
            self._wait(HEAD_S)
        else:
            log.warning("connection_refused", address=self._who, open=self._crowd.count, reason="too many are open")
            self._end()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop()
        self._crowd.leave(self._who)
        super().connection_lost(exc)

    def busy(self) -> None:
        """A whole head is here: whoever answers it has a patience of its own."""
        self._stop()

    def idle(self) -> None:
        """The answer is ready to be sent."""
        self._unsent = sys.maxsize
        self._wait(IDLE_S)

    def _wait(self, seconds: float) -> None:
        self._stop()
        self._sure = False
        self._timer = asyncio.get_running_loop().call_later(seconds, self._late)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        """A slow reader that still reads may go on."""
        if not self._sure:
            self._sure = True
            self._timer = asyncio.get_running_loop().call_later(SURE_S, self._late)
            return
        left = self._left()
        if 0 < left < self._unsent:
            self._unsent = left
            self._wait(IDLE_S)
        elif left == 0 and self.transport is not None:
            self.transport.close()  # what the kernel still holds is for the client to read
        else:
            self._end()

    def _left(self) -> int:
        """Bytes of the answer that the client has not taken yet."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def _end(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is no HTTP, and what broke outside of the middlewares, in the form of all errors."""
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        if status >= 500:
            log.error("request_failed", path=request.path, reason=str(exc) or type(exc).__name__, exc_info=exc)
            why = "an unexpected fault; the agent's log has it"
        else:
            why = " ".join((message or "it is no HTTP request").split())[:300]
        said = HttpError(method="the", path="request", why=why)
        response = web.json_response(error_body(status, said), status=status)
        response.force_close()
        return response


@web.middleware
async def patient(request: web.Request, handler: Any) -> web.StreamResponse:
    """Tells the connection when a request is under way."""
    door = request.protocol
    if not isinstance(door, Door):
        return await _plain(request, handler)
    door.busy()
    try:
        return await _plain(request, handler)
    finally:
        door.idle()


async def _plain(request: web.Request, handler: Any) -> web.StreamResponse:
    response: web.StreamResponse = await handler(request)
    return response
