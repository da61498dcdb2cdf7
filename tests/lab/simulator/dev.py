"""The routes of vLLM's developer mode: sleep, pause, abort. Most are round trips through the engine loop."""

from __future__ import annotations

from urllib.parse import parse_qs

from .engine_client import EngineClient
from .httpd import Handler, Reply, Request
from .ledger import EngineDead
from .metrics import EngineMetrics

_MODES = {"abort", "wait", "keep"}


class Dev:
    """Acts on all cores of an engine."""

    def __init__(self, engine: EngineClient, metrics: EngineMetrics) -> None:
        self.engine = engine
        self.metrics = metrics

    def routes(self) -> dict[tuple[str, str], Handler]:
        """What VLLM_SERVER_DEV_MODE=1 adds."""
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
            self.metrics.sleep(core.rank, level)

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
