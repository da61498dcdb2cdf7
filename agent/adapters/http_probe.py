"""HTTP to engines: one session, no keep-alive, a deadline on each call."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import aiohttp

from agent.samples.model import Canary, Health, Miss, Missed
from agent.samples.port import Endpoint, Request

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

    async def metrics(self, at: Endpoint, path: str, timeout_s: float) -> str | Missed:
        answer = await self._ask(at, Request(path), timeout_s)
        if isinstance(answer, Missed):
            return answer
        status, text = answer
        if status != 200:
            return Missed(Miss.HTTP, f"{path} answered {status}")
        return text

    async def health(self, at: Endpoint, path: str, timeout_s: float) -> Health | Missed:
        started = time.monotonic()
        answer = await self._ask(at, Request(path), timeout_s)
        if isinstance(answer, Missed):
            return answer
        return Health(answer[0], time.monotonic() - started)

    async def call(self, at: Endpoint, ask: Request, timeout_s: float) -> int | Missed:
        answer = await self._ask(at, ask, timeout_s)
        return answer if isinstance(answer, Missed) else answer[0]

    async def canary(self, at: Endpoint, ask: Request, timeout_s: float) -> Canary:
        started = time.monotonic()
        answer = await self._ask(at, ask, timeout_s)
        seconds = time.monotonic() - started
        if isinstance(answer, Missed):
            return Canary(False, seconds, answer.why, timed_out=answer.kind is Miss.TIMEOUT)
        status, text = answer
        if status != 200:
            return Canary(False, seconds, f"{ask.path} answered {status}: {text[:200]}")
        return Canary(*_token(text, seconds))

    async def _ask(self, at: Endpoint, ask: Request, timeout_s: float) -> tuple[int, str] | Missed:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(at, ask)
        except TimeoutError:
            return Missed(Miss.TIMEOUT, f"{ask.path} did not answer within {timeout_s:g} s")
        except aiohttp.ClientConnectorError as error:
            refused = isinstance(error.os_error, ConnectionRefusedError)
            return Missed(Miss.REFUSED if refused else Miss.BROKEN, f"cannot connect to {at.url}: {error.os_error}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Missed(Miss.BROKEN, f"{ask.path} broke off: {error or type(error).__name__}")

    async def _exchange(self, at: Endpoint, ask: Request) -> tuple[int, str]:
        headers = {"Connection": "close", "User-Agent": "recipe-agent"}
        if at.api_key:
            headers["Authorization"] = f"Bearer {at.api_key}"
        options: dict[str, Any] = {"headers": headers, "allow_redirects": False}
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


def _token(text: str, seconds: float) -> tuple[bool, float, str]:
    """Whether the answer of an OpenAI-like call carries something that only the scheduler can give."""
    try:
        answer = json.loads(text)
    except ValueError:
        return False, seconds, "the answer is no JSON"
    if isinstance(answer, dict) and _carries_token(answer):
        return True, seconds, f"answered in {seconds:.2f} s"
    return False, seconds, f"the answer carries no token: {text[:200]}"


def _carries_token(answer: dict[str, Any]) -> bool:
    """By the usage where it is counted, else by what was generated, embedded or ranked."""
    usage = answer.get("usage")
    if isinstance(usage, dict) and "completion_tokens" in usage:
        return bool(usage["completion_tokens"])
    return any(answer.get(key) for key in ("choices", "data", "results", "content"))
