"""The API server's life: bind, start the engine, serve until an end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Coroutine

from . import cache_config, core_process, startfail
from .api import Api
from .clock import Clock
from .control import Control
from .dialect import World
from .ending import Ending
from .engine_client import Core, EngineClient
from .faults import Board
from .flags import Launch
from .httpd import Site
from .ledger import Ledger
from .log import Log, server
from .metrics import EngineMetrics
from .process import set_title
from .settings import Settings
from .startup import banner
from .stats import Tally, log_forever
from .vllm import Vllm

_INTERRUPTED = 128 + signal.SIGINT  # a start is ended by KeyboardInterrupt, whichever signal asks


class Server:
    """One `vllm serve`, from the moment when its cores have been forked."""

    def __init__(self, world: World, control: Control, taken: socket.socket, cores: list[Core]) -> None:
        self.world = world
        self.launch, self.settings, self.clock = world.launch, world.settings, world.clock
        self.control = control
        self.taken = taken
        metrics = EngineMetrics(world.launch, len(cores))
        self.tally = Tally(metrics, len(cores))
        self.engine = EngineClient(cores, world.clock, world.board, Ledger(metrics, self.tally))
        self.ending: Ending | None = None
        self.ended = False
        self.finished: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.tasks: list[asyncio.Task[None]] = []

    async def run(self) -> int:
        """Serve until the end. Returns the exit code."""
        loop = asyncio.get_running_loop()
        self.engine.on_death = self._engine_died
        self.control.attach(self.engine)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_end)
        await self.engine.open()
        self.tasks.append(loop.create_task(self._serve()))
        if self.settings.control_file:
            self.tasks.append(loop.create_task(self.control.follow(self.settings.control_file)))
        try:
            return await self.finished
        finally:
            await self.engine.end()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        apart = self.settings.control_port
        if apart is not None:
            control = Site(self.control.handle, access_log=False)
            await loop.create_server(control.protocol, self.settings.control_host, apart)
        await self.engine.started.wait()
        if self.engine.dead:
            return
        self._announce()
        api = Api(self.launch, self.settings, self.engine, self.world.board, self.control if apart is None else None)
        site = Site(api.handle, access_log=self.launch.access_log)
        listener = await loop.create_server(site.protocol, sock=self.taken)
        self.ending = Ending(self.launch, self.clock, self.engine, site, listener)
        server("Application startup complete.")
        self.control.ready()
        if self.launch.log_stats and self.launch.data_parallel == 1:
            await log_forever(self.tally, self.clock, self.settings.log_interval_s, Log("APIServer"))

    def _announce(self) -> None:
        log = Log("APIServer")
        for core in self.engine.cores:
            labels = cache_config.labels(self.launch, core.blocks)
            self.engine.ledger.metrics.cache_config(core.rank, labels)
        log.note("entry.py:136", "Supported tasks: ['generate']")
        log.note("entry.py:140", f"Starting vLLM server on http://{self.launch.host}:{self.launch.port}")
        server(f"Started server process [{os.getpid()}]")
        server("Waiting for application startup.")

    def _engine_died(self) -> None:
        if self.ended:
            return
        if self.ending is None:
            self.ended = True
            startfail.tell_server({core.rank: core.code for core in self.engine.cores if core.code})
            self.engine.kill()
            self.finished.set_result(1)
            return
        self.ending.tell_death()
        if not (self.settings.keep_alive_on_death or self.control.keep_alive):
            self.ended = True
            self._carry_out(self.ending.after_death())

    def _asked_to_end(self) -> None:
        """SIGTERM or SIGINT; a second one changes nothing."""
        if self.ended:
            return
        self.ended = True
        if self.ending is None:
            self.engine.kill()
            self.finished.set_result(_INTERRUPTED)
        else:
            self._carry_out(self.ending.asked())

    def _carry_out(self, end: Coroutine[None, None, int]) -> None:
        async def settle() -> None:
            self.finished.set_result(await end)

        self.tasks.append(asyncio.get_running_loop().create_task(settle()))


def bind(host: str, port: int) -> socket.socket:
    """Take the port without listening: until the engine is ready, connections are refused. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind((host, port))
    return taken


def _spawn(world: World, taken: socket.socket) -> list[Core]:
    cores: list[Core] = []
    for rank in range(world.launch.data_parallel):
        pid, line = core_process.spawn(world, rank, [taken, *(core.line for core in cores)])
        cores.append(Core(rank, pid, line))
    return cores


def _begin(world: World, control: Control) -> tuple[socket.socket, list[Core]]:
    """Everything before the event loop: banner, port, engine cores. Raises StartFailure and OSError."""
    log = Log("APIServer")
    set_title("vllm", command_line=False)
    if world.settings.control_file:
        control.obey_file(world.settings.control_file)
    world.clock.sleep(world.settings.boot_s)
    banner(log, world.settings, world.launch)
    taken = bind(world.launch.host, world.launch.port)
    startfail.check_model(world.launch, world.settings, world.board)
    log.note("model.py:2152", f"Using max model len {world.launch.max_model_len}")
    text = f"Chunked prefill is enabled with max_num_batched_tokens={world.launch.batch_tokens}."
    log.note("scheduler.py:307", text)
    return taken, _spawn(world, taken)


def serve(launch: Launch, settings: Settings) -> int:
    """The whole process. Returns its exit code."""
    world = World(launch, settings, Clock(settings.scale), Board(), Vllm())
    control = Control(world.board, world.clock, settings.faults)
    try:
        taken, cores = _begin(world, control)
    except startfail.StartFailure as failure:
        startfail.tell(failure.message)
        return 1
    except OSError as error:
        startfail.tell(f"OSError: [Errno {error.errno}] {error.strerror}")
        return 1

    async def life() -> int:
        return await Server(world, control, taken, cores).run()

    code = asyncio.run(life())
    sys.stdout.flush()
    return code
