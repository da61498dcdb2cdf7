"""Streamed answers of an OpenAI-compatible engine, each piece with the time at which it came."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import aiohttp

from agent.engines.model import Request
from agent.samples.port import Endpoint
from agent.verify.trace import Trace

LONGEST_LINE = 1 << 20


class HttpStreams:
    """One session, a connection a request: what is cancelled is hung up, and the engine frees its request."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def trace(self, at: Endpoint, request: Request, timeout_s: float) -> Trace:
        collected = _Collected(time.monotonic())
        try:
            async with asyncio.timeout(timeout_s):
                await self._read(at, request, collected)
        except TimeoutError:
            collected.error = f"it took longer than {timeout_s:.0f} s"
        except (aiohttp.ClientError, OSError, ValueError, RecursionError) as error:
            collected.error = str(error) or type(error).__name__
        return collected.trace()

    async def _read(self, at: Endpoint, request: Request, into: _Collected) -> None:
        if self._session is None:
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False, read_bufsize=LONGEST_LINE)
        headers = {"Authorization": f"Bearer {at.api_key}"} if at.api_key else {}
        unlimited = aiohttp.ClientTimeout(total=None)
        async with self._session.post(
            at.url + request.path, json=dict(request.body or {}), headers=headers, ssl=False, timeout=unlimited
        ) as answer:
            if answer.status != 200:
                into.error = f"{request.path} answered {answer.status}: {(await answer.text())[:200]}"
                return
            async for line in answer.content:
                into.add(line)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


class _Collected:
    """What came of one stream so far."""

    def __init__(self, sent: float) -> None:
        self.sent = sent
        self.pieces: list[float] = []
        self.tokens: int | None = None
        self.prompt_tokens: int | None = None
        self.error = ""

    def add(self, line: bytes) -> None:
        if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
            return
        event: Any = json.loads(line[5:])
        if not isinstance(event, dict):
            return
        if event.get("error"):
            self.error = str(event["error"])[:200]
        usage = event.get("usage")
        if isinstance(usage, dict):
            self.tokens = whole(usage.get("completion_tokens"), self.tokens)
            self.prompt_tokens = whole(usage.get("prompt_tokens"), self.prompt_tokens)
        choices = event.get("choices")
        if isinstance(choices, list) and any(map(says, choices)):
            self.pieces.append(time.monotonic())

    def trace(self) -> Trace:
        tokens = self.tokens if self.tokens is not None else len(self.pieces)
        error = self.error or ("" if self.pieces else "no token came")
        return Trace(self.sent, tuple(self.pieces), tokens, self.prompt_tokens, error)


def whole(count: Any, else_: int | None) -> int | None:
    """A count of tokens, else what was known before."""
    return count if isinstance(count, int) and not isinstance(count, bool) else else_


def says(choice: Any) -> bool:
    """Whether a choice of an event carries text: a completion's, or a chat's content or reasoning."""
    if not isinstance(choice, dict):
        return False
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        delta = {}
    return bool(choice.get("text") or delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning"))
