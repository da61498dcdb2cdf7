"""The engine's routes: probes, models, metrics, OpenAI, tokenizer, and what the developer mode adds."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time

from . import prompts
from .control import Control
from .dev import Dev
from .dialect import World
from .engine_client import EngineClient
from .httpd import Handler, Reply, Request
from .metrics import EngineMetrics, HttpMetrics, render
from .openai import OpenAI


class Api:
    """Answers requests by method and path, counts them, and asks for the key where one was given."""

    def __init__(self, world: World, engine: EngineClient, metrics: EngineMetrics, control: Control | None) -> None:
        self.launch, self.settings, self.board = world.launch, world.settings, world.board
        self.engine = engine
        self.counted = metrics
        self.http = HttpMetrics()
        self.openai = OpenAI(self.launch, self.settings, engine)
        self.created = int(time.time())
        self.keys = tuple(k for k in (*self.launch.api_keys, self.settings.api_key) if k)
        self.routes = self._routes()
        dev = Dev(engine, metrics)
        self.routes["POST", "/inference/v1/abort_requests"] = dev.abort_requests
        if self.settings.dev_mode:
            self.routes |= dev.routes()
        if self.launch.tokens_only:
            self.routes["POST", "/abort_requests"] = dev.abort_requests
        if control is not None:
            self.routes |= control.routes()

    def _routes(self) -> dict[tuple[str, str], Handler]:
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
            reply.close()
            handler = request.path if route else "none"
            spent = time.monotonic() - reply.began
            self.http.done(handler, request.method, reply.status, spent, (len(request.body), reply.sent))

    def _allowed(self, request: Request) -> bool:
        """Only what lies under /v1 asks for the key."""
        if not self.keys or not request.path.startswith("/v1"):
            return True
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return any(hmac.compare_digest(given.encode(), key.encode()) for key in self.keys)

    async def health(self, _request: Request, reply: Reply) -> None:
        """A flag: 503 once an engine core is known to be dead. It never asks the engine.

        With several API servers it was seen to stay 200 until the server ended.
        """
        if self.board.get("health_hang"):
            await asyncio.Event().wait()
        reply.send(503 if self.engine.dead and self.launch.data_parallel == 1 else 200)

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
        text = render(self.counted, self.http)
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
