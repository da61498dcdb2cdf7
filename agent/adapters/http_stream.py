"""Streamed answers of an OpenAI-compatible engine, each piece with the time at which it came."""

from __future__ import annotations

import asyncio
import time
import zlib
from http import HTTPStatus

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from agent.engines.model import Request
from agent.plan.hide import mask
from agent.samples.port import Endpoint
from agent.verify.stream import Collected
from agent.verify.trace import Trace

LONGEST_LINE = 1 << 20
REFUSAL_BYTES = 4096
"""Of an answer that is no stream, what is read of it."""
TOLD = 200
AFTER_END_S = 5.0
"""Seconds for the counts behind the last piece: some servers keep the connection open and send no `[DONE]`."""


TROUBLE = (aiohttp.ClientError, HttpProcessingError, OSError, ValueError, RecursionError, zlib.error)


class HttpStreams:
    """One session, a connection a request: what is cancelled is hung up, and the engine frees its request."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def trace(self, at: Endpoint, request: Request, timeout_s: float) -> Trace:
        asked = (request.body or {}).get("max_tokens")
        collected = Collected(time.monotonic(), asked if isinstance(asked, int) else None)
        try:
            async with asyncio.timeout(timeout_s) as limit:
                await self._read(at, request, collected, limit)
        except TimeoutError:
            if not collected.finish:
                collected.error = collected.error or f"it took longer than {timeout_s:.0f} s"
        except TROUBLE as error:
            collected.error = f"the answer broke off or is none: {str(error) or type(error).__name__}"
        collected.error = told(collected.error, at)
        return collected.trace()

    async def _read(self, at: Endpoint, request: Request, into: Collected, limit: asyncio.Timeout) -> None:
        # packed text would come in bursts, and a redirect would measure somebody else and send the key there
        headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {at.api_key}"} if at.api_key else {})
        async with self._open().post(
            at.url + request.path,
            json=dict(request.body or {}),
            headers=headers,
            ssl=False,
            timeout=aiohttp.ClientTimeout(total=None),
            allow_redirects=False,
        ) as answer:
            if answer.status != HTTPStatus.OK:
                said = (await answer.content.read(REFUSAL_BYTES)).decode("utf-8", "replace")
                into.error = f"{request.path} answered {answer.status}: {said}"
                return
            async for line in answer.content:
                finished = bool(into.finish)
                into.add(line, time.monotonic())
                if into.over:
                    return
                if into.finish and not finished:
                    limit.reschedule(asyncio.get_running_loop().time() + AFTER_END_S)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False, read_bufsize=LONGEST_LINE)
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def told(text: str, at: Endpoint) -> str:
    """A server's words in one short line, without the key that was sent to it and other secrets."""
    if not text:
        return ""
    bare = text.replace(at.api_key, "secret") if at.api_key else text
    return " ".join(mask(bare).split())[:TOLD]
