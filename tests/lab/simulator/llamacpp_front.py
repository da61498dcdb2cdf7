"""llama.cpp's server: 503 while it loads, a health that never asks the loop, metrics and slots that do."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable
from typing import Any

from . import llamacpp_flags
from .control import Control
from .dialect import World
from .engine_client import EngineClient
from .front import End
from .httpd import Handler, Reply, Request, Site
from .ledger import Books, EngineDead, Sequence
from .llamacpp import ALIASES, FAILURES, LlamaLog, source
from .llamacpp_books import LlamaBooks
from .llamacpp_words import FINGERPRINT, LlamaWords
from .startfail import StartFailure

_NOTICE_S = 1.0
"""How often a server looks for clients that have gone. Whatever its loop answers meanwhile begins the second anew for
those that do not stream, so a scrape each 0.9 s kept an abandoned request for ever; one each 1.2 s did not."""
_OPEN = ("/", "/index.html", "/health", "/v1/health")
_LOOK = 0.01  # real seconds
_CLEANING = "operator(): cleaning up before exit..."


class LlamaFront:
    """`llama-server`."""

    early = True

    def __init__(self, world: World) -> None:
        self.world = world
        self.log = LlamaLog("")
        self.own = LlamaBooks(world.launch.spec_tokens)
        self.books: Books = self.own
        self.answered = 0.0
        self.born = int(time.time())
        self.engine: EngineClient
        self.words: LlamaWords
        self.routes: dict[tuple[str, str], Handler] = {}
        self.slots: list[dict[str, Any]] = [{} for _ in range(world.launch.max_running)]

    def begin(self) -> None:
        """The command line, and the banner. Raises StartFailure."""
        fault = self.world.board.get("start_fail")
        if fault and fault.arg == "bad_flag":
            llamacpp_flags.refuse("error: invalid argument: --no-such-flag")
        self.log.server("llama_server", "initializing ...")
        verbosity = "common_params_print_info: verbosity = 3 (adjust with the `-lv N` CLI arg)"
        self.log.note(source("cmn", "common_param"), verbosity)
        if not self.world.launch.api_keys:
            self.log.server("llama_server", "security: no API key is set and CORS allows all origins", "WARNING")
        if fault and fault.arg == "port":
            raise OSError(98, "Address already in use")
        if fault and ALIASES.get(fault.arg, fault.arg) not in FAILURES:
            raise SystemExit(f"the simulator knows no start of llama.cpp that fails with {fault.arg!r}")

    def listening(self) -> None:
        """It says nothing before the model is loaded."""

    def refused(self, error: Exception) -> int:
        """The port is taken."""
        launch = self.world.launch
        if not isinstance(error, StartFailure):
            where = f"hostname: {launch.host}, port: {launch.port}"
            self.log.server("start", f"couldn't bind HTTP server socket, {where}", "ERROR")
        self.log.server("operator()", _CLEANING)
        self.log.server("llama_server", "exiting due to HTTP server error", "ERROR")
        return 1

    def interrupted(self, engine: EngineClient) -> int | None:
        """No handler is there before the model is: the signal's own way, which PID 1 of a container survives."""
        if os.getpid() == 1:
            return None
        engine.kill()
        return _end_by(signal.SIGTERM)

    def site(self, engine: EngineClient, control: Control | None) -> Site:
        """All routes, from before the load."""
        self.engine = engine
        engine.hang_up_delay = _NOTICE_S
        engine.notices = self._notices
        self.words = LlamaWords(self.world, engine)
        self.routes = self._routes() | (control.routes() if control else {})
        named = {"Server": "llama.cpp", "Access-Control-Allow-Origin": "", "Keep-Alive": "timeout=5, max=100"}
        return Site(self.handle, access_log=False, headers=lambda: named)

    def _notices(self, sequence: Sequence) -> bool:
        return sequence.streamed or self.world.clock.now() - self.answered >= _NOTICE_S

    def _routes(self) -> dict[tuple[str, str], Handler]:
        return {
            ("GET", "/health"): self.health,
            ("GET", "/v1/health"): self.health,
            ("GET", "/metrics"): self.metrics,
            ("GET", "/slots"): self.show_slots,
            ("GET", "/props"): self.props,
            ("GET", "/v1/models"): self.models,
            ("GET", "/models"): self.models,
            ("POST", "/v1/completions"): self.words.completions,
            ("POST", "/v1/chat/completions"): self.words.chat,
        }

    async def serving(self, engine: EngineClient) -> None:
        """The model is loaded."""
        launch = self.world.launch
        self.log.server("llama_server", "model loaded")
        self.log.server("llama_server", f"listening on http://{launch.host}:{launch.port}")

    async def handle(self, request: Request, reply: Reply) -> None:
        """One request: the key first, then the load, then the route."""
        route = self.routes.get((request.method, request.path))
        try:
            if request.path.startswith("/sim/") and route is not None:
                await route(request, reply)
            elif not self._allowed(request):
                _error(reply, 401, "Invalid API Key", "authentication_error")
            elif not self.engine.started.is_set():
                _error(reply, 503, "Loading model", "unavailable_error")
            elif route is None:
                _error(reply, 404, "File Not Found", "not_found_error")
            else:
                await route(request, reply)
        except EngineDead:
            reply.connection.close()
        finally:
            reply.close()

    def _allowed(self, request: Request) -> bool:
        keys = self.world.launch.api_keys
        if not keys or request.path in _OPEN:
            return True
        given = request.headers.get("authorization", "").removeprefix("Bearer ") or request.headers.get("x-api-key")
        return given in keys

    async def health(self, _request: Request, reply: Reply) -> None:
        """Whether the model is loaded; the loop is not asked."""
        if self.world.board.get("health_hang"):
            await asyncio.Event().wait()
        _json(reply, {"status": "ok"})

    async def _look(self) -> list[dict[str, Any]]:
        """What runs, by the loop's own answer: it comes when the llama_decode under way has ended."""
        (running,) = await self.engine.call("look")
        self.answered = self.world.clock.now()
        return list(running)

    async def metrics(self, _request: Request, reply: Reply) -> None:
        """Through the loop, where the launch has switched them on."""
        board = self.world.board
        if board.get("metrics_hang"):
            await asyncio.Event().wait()
        if not self.world.launch.log_stats or board.get("metrics_404"):
            text = "This server does not support metrics endpoint. Start it with `--metrics`"
            _error(reply, 501, text, "not_supported_error")
            return
        running = await self._look()
        here = {one["id"] for one in running}
        deferred = sum(1 for name in self.engine.sequences if name not in here)
        body = self.own.render(len(running), deferred).encode()
        reply.send(200, body, "text/plain; version=0.0.4", Process_Start_Time_Unix=str(self.born))

    async def show_slots(self, request: Request, reply: Reply) -> None:
        """Through the loop; a slot that was never used shows less."""
        if "--no-slots" in self.world.launch.given:
            text = "This server does not support slots endpoint. Start it with `--slots`"
            _error(reply, 501, text, "not_supported_error")
            return
        running = await self._look()
        for one in running:
            self.slots[one["slot"]] = one
        busy = {one["slot"] for one in running}
        if "fail_on_no_slot=1" in request.query and len(busy) == len(self.slots):
            _error(reply, 503, "no slot available", "unavailable_error")
            return
        _json(reply, [self._slot(place, place in busy) for place in range(len(self.slots))])

    def _slot(self, place: int, busy: bool) -> dict[str, Any]:
        launch, seen = self.world.launch, self.slots[place]
        shown = {"id": place, "n_ctx": launch.max_model_len, "speculative": launch.spec_tokens > 0,
                 "is_processing": busy}  # fmt: skip
        if not seen:
            return shown
        done = min(seen["computed"], seen["prompt"])
        following = {"has_next_token": busy, "has_new_line": False, "n_decoded": seen["generated"],
                     "n_remain": seen["most"] - seen["generated"] if busy else -1}  # fmt: skip
        return shown | {
            "id_task": seen["task"], "n_prompt_tokens": done + seen["generated"],
            "n_prompt_tokens_processed": max(0, done - seen["cached"]), "n_prompt_tokens_cache": seen["cached"],
            "params": {"max_tokens": seen["most"], "n_predict": seen["most"]}, "next_token": [following],
        }  # fmt: skip

    async def props(self, _request: Request, reply: Reply) -> None:
        """GET /props."""
        launch = self.world.launch
        _json(reply, {
            "default_generation_settings": {"params": {"n_predict": -1}, "n_ctx": launch.max_model_len},
            "total_slots": launch.max_running, "model_alias": launch.names[0], "model_path": launch.model,
            "modalities": {"vision": False, "video": False, "audio": False},
            "endpoint_slots": "--no-slots" not in launch.given, "endpoint_props": "--props" in launch.given,
            "endpoint_metrics": launch.log_stats, "build_info": FINGERPRINT, "is_sleeping": False,
        })  # fmt: skip

    async def models(self, _request: Request, reply: Reply) -> None:
        """GET /v1/models."""
        launch = self.world.launch
        name = launch.names[0]
        meta = {"n_ctx": launch.max_model_len, "n_ctx_train": llamacpp_flags.TRAINED}
        card = {"id": name, "aliases": list(launch.names), "tags": [], "object": "model", "created": self.born,
                "owned_by": "llamacpp", "meta": meta}  # fmt: skip
        _json(reply, {"models": [{"name": name, "model": name, "type": "model"}], "object": "list", "data": [card]})

    def failed(self, engine: EngineClient) -> int:
        """The load's end was said by the loader."""
        self.log.server("operator()", _CLEANING)
        self.log.server("llama_server", "exiting due to model loading error", "ERROR")
        return 1

    def died(self, end: End, *, stays: bool) -> Awaitable[int] | None:
        """Loop and server are one process in truth: killed together, or ended by GGML_ABORT."""

        async def end_now() -> int:
            while end.engine.living():  # its line ends a moment before it does
                await asyncio.sleep(_LOOK)
            killed = any(core.code == -signal.SIGKILL for core in end.engine.cores)
            return _end_by(signal.SIGKILL if killed else signal.SIGABRT)

        return end_now()

    async def asked(self, end: End) -> int:
        """The loop ends after the llama_decode under way, however long that is, and then nobody answers who waits.

        Seen on the real one: a stream falls silent, with no EOF, and the process lives until its client has gone (once
        in six it ended at once, with an EOF). A second signal ends all at once, with 1.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._at_once, end.engine)
        self.log.server("operator()", _CLEANING)
        end.engine.stopping = True
        end.close_port()
        end.site.close_idle()
        for core in end.engine.living():
            os.kill(core.pid, signal.SIGTERM)
        while end.engine.living() or end.site.connections:
            await asyncio.sleep(_LOOK)
        return 0

    def _at_once(self, engine: EngineClient) -> None:
        os.write(2, b"Received second interrupt, terminating immediately.\n")
        engine.kill()
        os._exit(1)


def _json(reply: Reply, value: Any, status: int = 200) -> None:
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    reply.send(status, body, "application/json; charset=utf-8")


def _error(reply: Reply, status: int, message: str, kind: str) -> None:
    _json(reply, {"error": {"message": message, "type": kind, "code": status}}, status)


def _end_by(number: signal.Signals) -> int:
    """End by this signal; PID 1 of a container survives it, and ends with its code."""
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
