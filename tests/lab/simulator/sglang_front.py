"""SGLang's server: health by generation, aborts, the loads' snapshot, a drain without limit, death by SIGKILL."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Awaitable
from urllib.parse import parse_qs

from . import sglang_flags, startfail
from .control import Control
from .dialect import World
from .engine_client import EngineClient, Limits
from .front import End
from .httpd import Handler, Reply, Request, Site
from .ledger import Books, EngineDead
from .log import server, traceback, write
from .openai import OpenAI
from .prompts import Prompt
from .sglang import SglangLog
from .sglang_books import SglangBooks

_HEALTH_S = 20.0
_POLL_S = 1.0
_DRAIN_S = 5.0
_ABORT_S = 2.0


class SglangFront:
    """`python -m sglang.launch_server`."""

    early = False

    def __init__(self, world: World) -> None:
        self.world = world
        self.log = SglangLog("")
        self.own = SglangBooks(world, self.log)
        self.books: Books = self.own
        self.status = "Starting"
        self.engine: EngineClient
        self.openai: OpenAI

    def begin(self) -> None:
        """The arguments."""
        self.log.note(
            "", f"server_args=ServerArgs({', '.join(f'{k}={v!r}' for k, v in self.world.launch.given.items())})"
        )

    def listening(self) -> None:
        """Raises StartFailure."""
        if (fault := self.world.board.get("start_fail")) and fault.arg == "bad_flag":
            sglang_flags.parser_of_launches().error("unrecognized arguments: --no-such-flag")
        startfail.check_model(self.world.launch, self.world.settings, self.world.board)

    def refused(self, error: Exception) -> int:
        """A traceback."""
        return startfail.refused(error)

    def interrupted(self, engine: EngineClient) -> int | None:
        """A start is ended by KeyboardInterrupt, whichever signal asks."""
        engine.kill()
        return 128 + signal.SIGINT

    def site(self, engine: EngineClient, control: Control | None) -> Site:
        """All routes."""
        self.engine = engine
        engine.hang_up_delay = _ABORT_S
        self.openai = OpenAI(self.world.launch, self.world.settings, engine)
        self.routes = self._routes() | (control.routes() if control else {})
        server(f"Started server process [{os.getpid()}]")
        server("Waiting for application startup.")
        return Site(self.handle, access_log=self.world.launch.access_log)

    def _routes(self) -> dict[tuple[str, str], Handler]:
        routes: dict[tuple[str, str], Handler] = {
            ("GET", "/health"): self.health,
            ("GET", "/health_generate"): self.health,
            ("GET", "/ping"): self.ok,
            ("GET", "/v1/models"): self.models,
            ("GET", "/model_info"): self.model_info,
            ("GET", "/v1/loads"): self.loads,
            ("GET", "/server_info"): self.server_info,
            ("POST", "/abort_request"): self.abort_request,
            ("POST", "/flush_cache"): self.flush_cache,
            ("POST", "/pause_generation"): self.pause,
            ("POST", "/continue_generation"): self.resume,
            ("POST", "/v1/completions"): self.openai.completions,
            ("POST", "/v1/chat/completions"): self.openai.chat,
        }
        if self.world.launch.log_stats:
            routes["GET", "/metrics"] = self.metrics
        return routes

    async def serving(self, engine: EngineClient) -> None:
        """A warm-up request, then ready."""
        server("Application startup complete.")
        server(f"Uvicorn running on http://{self.world.launch.host}:{self.world.launch.port} (Press CTRL+C to quit)")
        await self._one_token("warmup")
        self.status = "Up"
        self.log.note("", "The server is fired up and ready to roll!")

    async def _one_token(self, name: str) -> None:
        sequence = self.engine.add(f"{name}_{secrets.token_hex(4)}", Prompt(1), Limits(1, None, 1))
        try:
            await sequence.outputs.take()
        finally:
            self.engine.abort([sequence.id])

    async def handle(self, request: Request, reply: Reply) -> None:
        """One request; all but the probes ask for the key."""
        route = self.routes.get((request.method, request.path))
        keys = self.world.launch.api_keys
        open_to_all = request.path.startswith(("/health", "/metrics", "/sim"))
        try:
            if keys and not open_to_all and request.headers.get("authorization") != f"Bearer {keys[0]}":
                reply.json({"error": "Unauthorized"}, 401)
            elif route is None:
                reply.json({"detail": "Not Found"}, 404)
            else:
                await route(request, reply)
        except EngineDead as dead:
            reply.error(500, str(dead), "InternalServerError")
        finally:
            reply.close()

    async def health(self, _request: Request, reply: Reply) -> None:
        """A one-token request; any word of a scheduler within 20 s will do, and each look takes a second."""
        if self.world.board.get("health_hang"):
            await asyncio.Event().wait()
        if self.status in {"Starting", "Ending"}:
            reply.send(503)
            return
        asked = self.world.clock.now()
        probe = asyncio.ensure_future(self._one_token("HEALTH_CHECK"))
        try:
            while self.world.clock.now() - asked < _HEALTH_S:
                await asyncio.sleep(self.world.clock.real(_POLL_S))
                if self.engine.heard > asked:
                    self.status = "Up"
                    reply.send(200)
                    return
        finally:
            probe.cancel()
        self.status = "UnHealthy"
        self.log.note("", "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.")
        reply.send(503)

    async def ok(self, _request: Request, reply: Reply) -> None:
        """Trivial."""
        reply.send(200)

    async def models(self, _request: Request, reply: Reply) -> None:
        """GET /v1/models."""
        launch = self.world.launch
        card = {"id": launch.names[0], "object": "model", "owned_by": "sglang", "root": launch.model,
                "max_model_len": launch.max_model_len}  # fmt: skip
        reply.json({"object": "list", "data": [card]})

    async def model_info(self, _request: Request, reply: Reply) -> None:
        """GET /model_info."""
        reply.json({"model_path": self.world.launch.model, "is_generation": True})

    async def metrics(self, _request: Request, reply: Reply) -> None:
        """Only with --enable-metrics."""
        if self.world.board.get("metrics_hang"):
            await asyncio.Event().wait()
        if self.world.board.get("metrics_404"):
            reply.json({"detail": "Not Found"}, 404)
            return
        reply.send(200, self.own.render().encode(), "text/plain; version=0.0.4; charset=utf-8")

    async def loads(self, _request: Request, reply: Reply) -> None:
        """A snapshot that the schedulers leave; its timestamp is their heartbeat."""
        reply.json({"loads": self.own.loads, "dp_rank_count": len(self.own.loads), "version": "0.5.23"})

    async def server_info(self, _request: Request, reply: Reply) -> None:
        """A round trip through the scheduler's loop."""
        await self.engine.call("ask", what="paused")
        reply.json({"version": "0.5.23", **self.world.launch.given})

    async def abort_request(self, request: Request, reply: Reply) -> None:
        """Always 200. By rid (a prefix) it reaches what the server still knows, by abort_all every scheduler."""
        try:
            body = request.json()
        except ValueError:
            body = {}
        rid = str(body.get("rid") or "")
        if body.get("abort_all"):
            self.own.abort_sent()
            await self.engine.call("drop_all")
        elif rid and (known := [s for s in self.engine.sequences if s.startswith(rid)]):
            self.own.abort_sent()
            self.engine.abort(known)
        reply.send(200)

    async def flush_cache(self, _request: Request, reply: Reply) -> None:
        """POST /flush_cache."""
        await self.engine.call("forget")
        reply.send(200, b"Cache flushed.", "text/plain")

    async def pause(self, request: Request, reply: Reply) -> None:
        """POST /pause_generation: `abort` ends all, `in_place` and `retract` keep them."""
        wanted = parse_qs(request.query).get("mode", ["abort"])[0]
        await self.engine.call("pause", mode="abort" if wanted == "abort" else "keep", clear_cache=False)
        reply.json({"message": "Generation paused successfully.", "status": "ok"})

    async def resume(self, _request: Request, reply: Reply) -> None:
        """POST /continue_generation."""
        await self.engine.call("resume")
        reply.json({"message": "Generation continued successfully.", "status": "ok"})

    def failed(self, engine: EngineClient) -> int:
        """A scheduler's SIGQUIT ends the whole tree."""
        write(traceback("RuntimeError: Initialization failed. Please see the error messages above.") + "\n")
        return _kill_tree(engine)

    def died(self, end: End, *, stays: bool) -> Awaitable[int] | None:
        """The same later; nothing makes it stay."""

        async def quit_now() -> int:
            self.log.note("", "Received sigquit from a child process. It usually means the child failed.")
            return _kill_tree(end.engine)

        return quit_now()

    async def asked(self, end: End) -> int:
        """SIGTERM drains without limit what the server knows, unless it is unhealthy or told to be forceful."""
        unhealthy, self.status = self.status == "UnHealthy", "Ending"
        if unhealthy:
            self.log.note("", "Signal SIGTERM received while health check failed. Force exiting.")
        while not unhealthy and not self.world.settings.force_shutdown:
            left = [s.id for s in end.engine.sequences.values()]
            text = f"Remaining number of requests {len(left)}. Remaining requests remaining_rids={left}."
            self.log.note("", f"Gracefully exiting... {text}")
            if not left:
                break
            await asyncio.sleep(self.world.clock.real(_DRAIN_S))
        return _kill_tree(end.engine)


def _kill_tree(engine: EngineClient) -> int:
    """kill_process_tree(self): SIGKILL, which PID 1 of a container survives, to exit with 0."""
    engine.kill()
    os.kill(os.getpid(), signal.SIGKILL)
    return 0
