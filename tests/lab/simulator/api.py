"""The engine's routes: probes, models, metrics, OpenAI, tokenizer, and what the developer mode adds."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

from . import prompts
from .control import Control
from .engine_client import EngineClient, EngineDead
from .faults import Board
from .flags import Launch
from .httpd import Reply, Request
from .metrics import HttpMetrics, render
from .openai import OpenAI
from .settings import Settings

Route = Callable[[Request, Reply], Awaitable[None]]
_MODES = {"abort", "wait", "keep"}


class Api:
    """Answers requests by method and path, counts them, and asks for the key where one was given."""

    def __init__(
        self, launch: Launch, settings: Settings, engine: EngineClient, board: Board, control: Control | None
    ) -> None:
        self.launch = launch
        self.settings = settings
        self.engine = engine
        self.board = board
        self.http = HttpMetrics()
        self.openai = OpenAI(launch, settings, engine)
        self.created = int(time.time())
        self.keys = tuple(k for k in (*launch.api_keys, settings.api_key) if k)
        self.routes = self._routes()
        if settings.dev_mode:
            self.routes |= self._dev_routes()
        if launch.tokens_only:
            self.routes["POST", "/abort_requests"] = self.abort_requests
        if control is not None:
            self.routes |= control.routes()

    def _routes(self) -> dict[tuple[str, str], Route]:
        return {
            ("GET", "/health"): self.health,
            ("GET", "/ping"): self.health,
            ("POST", "/ping"): self.health,
            ("GET", "/load"): self.load,
            ("GET", "/version"): self.version,
            ("GET", "/metrics"): self.metrics,
            ("GET", "/v1/models"): self.models,
            ("GET", "/kv_event_sources"): self.empty,
            ("POST", "/tokenize"): self.tokenize,
            ("POST", "/v1/completions"): self.openai.completions,
            ("POST", "/v1/chat/completions"): self.openai.chat,
            ("POST", "/inference/v1/abort_requests"): self.abort_requests,
        }

    def _dev_routes(self) -> dict[tuple[str, str], Route]:
        return {
            ("GET", "/is_sleeping"): self.is_sleeping,
            ("GET", "/is_paused"): self.is_paused,
            ("POST", "/sleep"): self.sleep,
            ("POST", "/wake_up"): self.wake_up,
            ("POST", "/pause"): self.pause,
            ("POST", "/resume"): self.resume,
            ("POST", "/abort_requests"): self.abort_requests,
            ("POST", "/reset_prefix_cache"): self.reset_prefix_cache,
        }

    async def handle(self, request: Request, reply: Reply) -> None:
        """One request."""
        route = self.routes.get((request.method, request.path))
        try:
            if not self._allowed(request):
                reply.json({"error": "Unauthorized"}, 401)
            elif route is None:
                known = any(path == request.path for _, path in self.routes)
                detail = "Method Not Allowed" if known else "Not Found"
                reply.json({"detail": detail}, 405 if known else 404)
            else:
                await route(request, reply)
        finally:
            handler = request.path if route else "none"
            spent = time.monotonic() - reply.began
            self.http.done(handler, request.method, reply.status or 499, spent, (len(request.body), reply.sent))

    def _allowed(self, request: Request) -> bool:
        """Only what lies under /v1 asks for the key."""
        if not self.keys or not request.path.startswith("/v1"):
            return True
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return any(hmac.compare_digest(given.encode(), key.encode()) for key in self.keys)

    async def health(self, _request: Request, reply: Reply) -> None:
        """A flag: 503 once an engine core is known to be dead. It never asks the engine."""
        reply.send(503 if self.engine.dead else 200)

    async def load(self, _request: Request, reply: Reply) -> None:
        """Requests in flight; always 0 without --enable-server-load-tracking."""
        reply.json({"server_load": self.openai.in_flight if self.launch.load_tracking else 0})

    async def version(self, _request: Request, reply: Reply) -> None:
        """GET /version."""
        reply.json({"version": self.settings.version})

    async def empty(self, _request: Request, reply: Reply) -> None:
        """An endpoint with nothing to tell."""
        reply.json({})

    async def metrics(self, _request: Request, reply: Reply) -> None:
        """The text, also while the engine hangs: it is the server's own memory."""
        if self.board.get("metrics_hang"):
            await asyncio.Event().wait()
        if self.board.get("metrics_404"):
            reply.json({"detail": "Not Found"}, 404)
            return
        text = render(self.engine.metrics, self.http, several_servers=self.launch.data_parallel > 1)
        reply.send(200, text.encode(), "text/plain; version=1.0.0; charset=utf-8")

    async def models(self, _request: Request, reply: Reply) -> None:
        """GET /v1/models."""
        data = [
            {
                "id": name, "object": "model", "created": self.created, "owned_by": "vllm", "root": self.launch.model,
                "parent": None, "max_model_len": self.launch.max_model_len, "permission": [self._permission()],
            }
            for name in self.launch.names
        ]  # fmt: skip
        reply.json({"object": "list", "data": data})

    def _permission(self) -> dict[str, object]:
        rights = {f"allow_{what}": what in {"sampling", "logprobs", "view"} for what in (
            "create_engine", "sampling", "logprobs", "search_indices", "view", "fine_tuning")}  # fmt: skip
        return {"id": f"modelperm-{secrets.token_hex(8)}", "object": "model_permission", "created": self.created,
                **rights, "organization": "*", "group": None, "is_blocking": False}  # fmt: skip

    async def tokenize(self, request: Request, reply: Reply) -> None:
        """POST /tokenize: numbers of pieces; see prompts.py for what a token is."""
        try:
            pieces = prompts.tokenize(str(request.json()["prompt"]))
        except (ValueError, KeyError, TypeError):
            reply.error(400, "prompt is missing (parameter=prompt)", "BadRequestError", "prompt")
            return
        ids = [sum(piece.encode()) for piece in pieces]
        reply.json({"count": len(ids), "max_model_len": self.launch.max_model_len, "tokens": ids, "token_strs": None})

    async def abort_requests(self, request: Request, reply: Reply) -> None:
        """Abort by id, or all that the frontend knows for `{}`; an empty body is refused, as in 0.33."""
        try:
            body = request.json()
            ids = body.get("request_ids")
        except (ValueError, AttributeError):
            reply.error(400, "JSON decode error", "BadRequestError")
            return
        self.engine.abort(ids)
        reply.send(200)

    async def is_sleeping(self, _request: Request, reply: Reply) -> None:
        """A round trip through the engine loop."""
        await self._utility(reply, "ask", "is_sleeping", what="asleep")

    async def is_paused(self, _request: Request, reply: Reply) -> None:
        """A round trip through the engine loop."""
        await self._utility(reply, "ask", "is_paused", what="paused")

    async def sleep(self, request: Request, reply: Reply) -> None:
        """POST /sleep?level=1."""
        level = int(_query(request, "level", "1"))
        if await self._utility(reply, "sleep", "", level=level):
            self._slept(level)

    async def wake_up(self, _request: Request, reply: Reply) -> None:
        """POST /wake_up."""
        if await self._utility(reply, "sleep", "", level=0):
            self._slept(0)

    def _slept(self, level: int) -> None:
        for core in self.engine.cores:
            self.engine.metrics.sleep(core.rank, level)

    async def pause(self, request: Request, reply: Reply) -> None:
        """POST /pause?mode=abort|wait|keep&clear_cache=…: abort reaches every request in the scheduler."""
        mode = _query(request, "mode", "abort")
        if mode not in _MODES:
            reply.json({"error": f"Invalid mode: {mode!r}"}, 400)
            return
        self.engine.paused = mode
        clear = _query(request, "clear_cache", "true").lower() != "false"
        await self._utility(reply, "pause", "", body={"status": "paused"}, mode=mode, clear_cache=clear)

    async def resume(self, _request: Request, reply: Reply) -> None:
        """POST /resume."""
        if await self._utility(reply, "resume", "", body={"status": "resumed"}):
            self.engine.paused = ""

    async def reset_prefix_cache(self, _request: Request, reply: Reply) -> None:
        """POST /reset_prefix_cache."""
        await self._utility(reply, "forget", "")

    async def _utility(
        self, reply: Reply, op: str, name: str, body: dict[str, str] | None = None, **more: str | int | bool
    ) -> bool:
        """Call every core and answer with what the first says under `name`, with `body`, or with nothing."""
        try:
            values = await self.engine.call(op, **more)
        except EngineDead as dead:
            reply.error(500, str(dead), "InternalServerError")
            return False
        if name:
            reply.json({name: values[0]})
        elif body:
            reply.json(body)
        else:
            reply.send(200)
        return True


def _query(request: Request, name: str, default: str) -> str:
    return parse_qs(request.query).get(name, [default])[0]
