"""How vLLM's server ends: asked to, by its engine's death, or by a start that failed. Each has its own exit code."""

from __future__ import annotations

import asyncio
import os
import signal

from .dialect import World
from .engine_client import DEAD
from .front import End
from .log import Log, server, traceback

_NOTICE_S = 4.5  # the watchdog looks every 5 s whether the engine is dead; seen: the server is gone 4.5 s later
_TEARDOWN_S = 10.0  # seen after a drain: 5 s for the workers to end, as much again to be ended
_DP_HTTP_S = 4.0  # seen with data parallelism: HTTP, healthy till then, goes after 4 s …
_DP_EXIT_S = 8.0  # … and the launcher ends with 1 after 8 s
_FORCE_S = 0.3  # an abort waits this little for the core before it is killed
_LOOK = 0.01  # real seconds between looks


class VllmEnding:
    """Carries vLLM's ends through, once HTTP is there."""

    def __init__(self, world: World, end: End) -> None:
        self.launch = world.launch
        self.clock = world.clock
        self.end = end
        self.engine = end.engine
        self.site = end.site
        self.log = Log("APIServer")

    def tell_death(self) -> None:
        """What the frontend writes when a core is gone."""
        what = ("start timeout=default", "stopping engine manager", "engine manager stopped",
                "cleaning up background resources", "complete")  # fmt: skip
        self.log.caution("core_client.py:817", "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup")
        for line in what:
            self.log.note("core_client.py:770", f"[shutdown] MPClient: {line}")
        error = f"vllm.v1.engine.exceptions.EngineDeadError: {DEAD}"
        self.log.alarm("async_llm.py:906", "AsyncLLM output_handler failed.")
        self.log.alarm("async_llm.py:906", traceback(error, ("outputs = await engine_core.get_output_async()",)))

    async def after_death(self) -> int:
        """The watchdog ends the web server in good order, so the code is 0; with data parallelism the launcher's 1."""
        several = self.launch.data_parallel > 1
        await asyncio.sleep(self.clock.real(_DP_HTTP_S if several else _NOTICE_S))
        if not several:
            await self.stop_http()
            return 0
        self.end.close_port()
        self.site.close_all()
        self.engine.kill()
        await asyncio.sleep(self.clock.real(_DP_EXIT_S - _DP_HTTP_S))
        return 1

    async def asked(self) -> int:
        """SIGTERM: abort at once, or drain first where --shutdown-timeout says so."""
        timeout = self.launch.shutdown_timeout
        what = f"stopping engine client mode={'drain' if timeout else 'abort'} timeout={timeout}s"
        self.log.note("launcher.py:254", "[shutdown] API server: shutdown triggered")
        self.log.note("launcher.py:270", f"[shutdown] API server: {what}")
        self.engine.stopping = True
        if not timeout:
            self.end.close_port()
        await self._stop_cores(timeout + _FORCE_S)
        if timeout:
            await asyncio.sleep(self.clock.real(_TEARDOWN_S))
        self.log.note("launcher.py:279", "[shutdown] API server: engine client stopped")
        self.log.note("launcher.py:282", "[shutdown] API server: signalling HTTP server shutdown")
        self.log.note("launcher.py:304", "[shutdown] API server: shutting down FastAPI HTTP server")
        await self.stop_http()
        return 0

    async def _stop_cores(self, patience: float) -> None:
        """SIGTERM, wait, SIGKILL."""
        for core in self.engine.living():
            self.log.note("utils.py:628", "[shutdown] Process manager: send sigterm to process EngineCore")
            os.kill(core.pid, signal.SIGTERM)
        until = self.clock.now() + patience
        while self.engine.living() and self.clock.now() < until:
            await asyncio.sleep(_LOOK)
        for core in self.engine.living():
            what = f"[shutdown] Process manager: force killing remaining process EngineCore pid {core.pid}"
            self.log.caution("utils.py:653", what)
        await self.engine.end()

    async def stop_http(self) -> None:
        """Refuse new connections, close idle ones, wait for the others however long they take."""
        server("Shutting down")
        self.end.close_port()
        self.site.close_idle()
        if self.site.connections:
            server("Waiting for connections to close. (CTRL+C to force quit)")
        while self.site.connections:
            await asyncio.sleep(_LOOK)
        server("Waiting for application shutdown.")
        server("Application shutdown complete.")
        server(f"Finished server process [{os.getpid()}]")
