"""The API server's life: bind, start the engine, serve, and end as vLLM ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys

from . import cache_config, core_process, startfail
from .api import Api
from .clock import Clock
from .control import Control
from .engine_client import Core, EngineClient
from .faults import Board
from .flags import Launch
from .httpd import Site
from .log import Log, server
from .metrics import EngineMetrics
from .process import reap, set_title
from .settings import Settings
from .startup import banner
from .stats import Tally, log_forever

_NOTICE_S = 4.5  # the watchdog looks every 5 s whether the engine is dead; seen: the server is gone 4.5 s later
_TEARDOWN_S = 10.0  # seen after a drain: 5 s for the workers to end, as much again to be ended
_DP_EXIT_S = 8.0  # seen with data parallelism: HTTP goes after 4 s, the launcher ends with 1 after 8 s
_FORCE_S = 0.3  # an abort waits this little for the core before it is killed


class Server:
    """One `vllm serve`."""

    def __init__(self, launch: Launch, settings: Settings) -> None:
        self.launch = launch
        self.settings = settings
        self.clock = Clock(settings.scale)
        self.board = Board()
        self.control = Control(self.board, self.clock, settings.faults)
        self.log = Log("APIServer")
        self.ending = False
        self.finished: asyncio.Future[int] | None = None

    def start(self) -> list[Core]:
        """Everything before the event loop: banner, port, engine cores. Raises StartFailure and OSError."""
        set_title("vllm", command_line=False)
        if (file := self.settings.control_file) and file.is_file():
            self.control._obey(file.read_text())
        self.clock.sleep(self.settings.boot_s)
        banner(self.log, self.settings, self.launch)
        self.socket = bind(self.launch.host, self.launch.port)
        fault = self.board.get("start_fail")
        startfail.check_model(self.launch, self.settings, fault.arg if fault else "")
        self.log.note("model.py:2152", f"Using max model len {self.launch.max_model_len}")
        if self.launch.prefix_caching or self.launch.batch_tokens:
            text = f"Chunked prefill is enabled with max_num_batched_tokens={self.launch.batch_tokens}."
            self.log.note("scheduler.py:307", text)
        return self._spawn()

    def _spawn(self) -> list[Core]:
        cores: list[Core] = []
        for rank in range(self.launch.data_parallel):
            foreign = [self.socket, *(core.line for core in cores)]
            pid, line = core_process.spawn(self.launch, self.settings, self.clock, self.board, rank, foreign)
            cores.append(Core(rank, pid, line))
        return cores

    async def run(self, cores: list[Core]) -> int:
        """Serve until the end. Returns the exit code."""
        loop = asyncio.get_running_loop()
        self.finished = loop.create_future()
        metrics = EngineMetrics(self.launch, len(cores))
        self.tally = Tally(metrics, len(cores))
        self.engine = EngineClient(cores, self.clock, self.board, metrics, self.tally)
        self.engine.on_death = self._engine_died
        self.control.attach(self.engine)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_end)
        tasks = [loop.create_task(self._serve())]
        if self.settings.control_file:
            tasks.append(loop.create_task(self.control.follow(self.settings.control_file)))
        await self.engine.open()
        try:
            return await self.finished
        finally:
            for task in tasks:
                task.cancel()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        apart = self.settings.control_port
        if apart is not None:
            site = Site(self.control.handle, access_log=False)
            await loop.create_server(site.protocol, self.settings.control_host, apart)
        await self.engine.started.wait()
        if self.engine.dead:
            return
        self._announce()
        self.api = Api(self.launch, self.settings, self.engine, self.board, self.control if apart is None else None)
        self.site = Site(self.api.handle, access_log=self.launch.access_log)
        self.listener = await loop.create_server(self.site.protocol, sock=self.socket)
        server("Application startup complete.")
        self.control.ready()
        if self.launch.log_stats and self.launch.data_parallel == 1:
            await log_forever(self.tally, self.clock, self.settings.log_interval_s, self.log)

    def _announce(self) -> None:
        for core in self.engine.cores:
            self.engine.metrics.cache_config(core.rank, cache_config.labels(self.launch, core.blocks))
        host, port = self.launch.host, self.launch.port
        self.log.note("entry.py:136", "Supported tasks: ['generate']")
        self.log.note("entry.py:140", f"Starting vLLM server on http://{host}:{port}")
        server(f"Started server process [{os.getpid()}]")
        server("Waiting for application startup.")

    def _end(self, code: int) -> None:
        if self.finished is not None and not self.finished.done():
            self.finished.set_result(code)

    def _engine_died(self) -> None:
        if self.ending:
            return
        if not all(core.ready for core in self.engine.cores):
            codes = {core.rank: core.code for core in self.engine.cores if core.code is not None}
            names = {Log(f"EngineCore_DP{r}" if len(self.engine.cores) > 1 else "EngineCore").process: c
                     for r, c in codes.items()}  # fmt: skip
            startfail.tell_server(str(names))
            self.engine.kill()
            self._end(1)
        elif not (self.settings.keep_alive_on_death or self.control.keep_alive):
            asyncio.get_running_loop().create_task(self._leave_after_death())

    async def _leave_after_death(self) -> None:
        """Death noticed by the watchdog: the web server ends in good order, so with exit code 0."""
        await asyncio.sleep(self.clock.real(_NOTICE_S))
        await self._stop_http()
        if self.launch.data_parallel > 1:
            self.engine.kill()
            await asyncio.sleep(self.clock.real(_DP_EXIT_S - _NOTICE_S))
            self._end(1)
        self._end(0)

    def _asked_to_end(self) -> None:
        """SIGTERM or SIGINT; a second one changes nothing."""
        if self.ending:
            return
        self.ending = True
        if not self.engine.started.is_set():
            self.engine.kill()
            self._end(128 + signal.SIGINT)  # a start is interrupted by KeyboardInterrupt
            return
        asyncio.get_running_loop().create_task(self._shut_down())

    async def _shut_down(self) -> None:
        timeout = self.launch.shutdown_timeout
        mode = "drain" if timeout else "abort"
        self.log.note("launcher.py:254", "[shutdown] API server: shutdown triggered")
        self.log.note(
            "launcher.py:270", f"[shutdown] API server: stopping engine client mode={mode} timeout={timeout}s"
        )
        self.engine.stopping = self.engine.refusing = True
        if timeout:
            await self._stop_cores(timeout + _FORCE_S, teardown=_TEARDOWN_S)
        else:
            self.listener.close()
            await self._stop_cores(_FORCE_S, teardown=0.0)
        self.log.note("launcher.py:279", "[shutdown] API server: engine client stopped")
        self.log.note("launcher.py:282", "[shutdown] API server: signalling HTTP server shutdown")
        self.log.note("launcher.py:304", "[shutdown] API server: shutting down FastAPI HTTP server")
        await self._stop_http()
        self._end(0)

    async def _stop_cores(self, patience: float, teardown: float) -> None:
        """SIGTERM, wait, SIGKILL."""
        for core in self.engine.cores:
            if core.code is None:
                self.log.note("utils.py:628", "[shutdown] Process manager: send sigterm to process EngineCore")
                os.kill(core.pid, signal.SIGTERM)
        until = self.clock.now() + patience
        while self._alive() and self.clock.now() < until:
            await asyncio.sleep(0.01)
        if not self._alive():
            await asyncio.sleep(self.clock.real(teardown))
        for core in self._alive():
            what = f"[shutdown] Process manager: force killing remaining process EngineCore pid {core.pid}"
            self.log.caution("utils.py:653", what)
        self.engine.kill()

    def _alive(self) -> list[Core]:
        for core in self.engine.cores:
            if core.code is None:
                core.code = reap(core.pid)
        return [core for core in self.engine.cores if core.code is None]

    async def _stop_http(self) -> None:
        """Refuse new connections, close idle ones, wait for the others however long they take."""
        server("Shutting down")
        self.listener.close()
        self.site.close_idle()
        if self.site.connections:
            server("Waiting for connections to close. (CTRL+C to force quit)")
        while self.site.connections:
            await asyncio.sleep(0.02)
        server("Waiting for application shutdown.")
        server("Application shutdown complete.")
        server(f"Finished server process [{os.getpid()}]")


def bind(host: str, port: int) -> socket.socket:
    """Take the port without listening: until the engine is ready, connections are refused. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind((host, port))
    return taken


def serve(launch: Launch, settings: Settings) -> int:
    """The whole process. Returns its exit code."""
    server_process = Server(launch, settings)
    try:
        cores = server_process.start()
    except startfail.StartFailure as failure:
        startfail.tell(failure.message)
        return 1
    except OSError as error:
        startfail.tell(f"OSError: [Errno {error.errno}] {error.strerror}")
        return 1
    code = asyncio.run(server_process.run(cores))
    sys.stdout.flush()
    return code
