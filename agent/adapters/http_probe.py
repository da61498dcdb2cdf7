"""HTTP to engines: one session, no keep-alive, a deadline on each call."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp

from agent.engines.model import Request
from agent.samples.model import Health, Miss, Missed
from agent.samples.port import Answer, Endpoint

LARGEST_ANSWER = 8 << 20


class HttpProbe:
    """The agent's calls send `Connection: close`, so that none stands on an engine's port and passes for a client."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            connector = aiohttp.TCPConnector(force_close=True, limit=64)
            # trust_env off: a proxy of the host's must not stand between the agent and its engine
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False, auto_decompress=True)
        return self._session

    async def ask(self, at: Endpoint, request: Request, timeout_s: float) -> Answer | Missed:
        started = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                status, text = await self._exchange(at, request)
        except TimeoutError:
            return Missed(Miss.TIMEOUT, f"{request.path} did not answer within {timeout_s:g} s")
        except aiohttp.ClientConnectorError as error:
            refused = isinstance(error.os_error, ConnectionRefusedError)
            return Missed(Miss.REFUSED if refused else Miss.BROKEN, f"cannot connect to {at.url}: {error.os_error}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Missed(Miss.BROKEN, f"{request.path} broke off: {error or type(error).__name__}")
        return Answer(status, text, time.monotonic() - started)

    async def metrics(self, at: Endpoint, path: str, timeout_s: float) -> str | Missed:
        answer = await self.ask(at, Request(path), timeout_s)
        if isinstance(answer, Missed):
            return answer
        if answer.status != 200:
            return Missed(Miss.HTTP, f"{path} answered {answer.status}")
        return answer.text

    async def health(self, at: Endpoint, path: str, timeout_s: float) -> Health | Missed:
        answer = await self.ask(at, Request(path), timeout_s)
        return answer if isinstance(answer, Missed) else Health(answer.status, answer.seconds)

    async def _exchange(self, at: Endpoint, ask: Request) -> tuple[int, str]:
        headers = {**ask.headers, "Connection": "close", "User-Agent": "recipe-agent"}
        if at.api_key:
            headers["Authorization"] = f"Bearer {at.api_key}"
        # an engine's certificate names its public host, and the agent talks to it over loopback
        options: dict[str, Any] = {"headers": headers, "allow_redirects": False, "ssl": False}
        if ask.body is not None:
            options["json"] = dict(ask.body)
        async with self._open().request(ask.method, at.url + ask.path, **options) as answer:
            raw = await answer.content.read(LARGEST_ANSWER)
            while len(raw) < LARGEST_ANSWER and (more := await answer.content.read(LARGEST_ANSWER - len(raw))):
                raw += more
            return answer.status, raw.decode("utf-8", "replace")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
