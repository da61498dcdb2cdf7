"""A server's life: bind, start the schedulers, serve until an end. What it says and answers is its front's."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Awaitable

from . import core_process
from .control import Control
from .engine_client import Core, EngineClient
from .front import Front
from .httpd import Site
from .process import set_title
from .startfail import StartFailure


class Server:
    """One server, from the moment when its schedulers have been forked."""

    def __init__(self, front: Front, control: Control, taken: socket.socket, cores: list[Core]) -> None:
        self.front = front
        self.settings = front.world.settings
        self.control = control
        self.taken = taken
        self.engine = EngineClient(cores, front.world.clock, front.world.board, front.books)
        self.site: Site
        self.listener: asyncio.Server | None = None
        self.serves = False
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
        if self.front.early:
            await self._listen()
        await self.engine.started.wait()
        if self.engine.dead:
            return
        if not self.front.early:
            await self._listen()
        self.serves = True
        self.control.ready()
        await self.front.serving(self.engine)

    async def _listen(self) -> None:
        apart = self.settings.control_port is not None
        self.site = self.front.site(self.engine, None if apart else self.control)
        self.listener = await asyncio.get_running_loop().create_server(self.site.protocol, sock=self.taken)

    def close_port(self) -> None:
        """Refuse new connections."""
        if self.listener is not None:
            self.listener.close()

    def _engine_died(self) -> None:
        if self.ended:
            return
        if not self.serves:
            self.ended = True
            self.engine.kill()
            self.finished.set_result(self.front.failed(self.engine))
        elif (end := self.front.died(self, stays=self.control.keep_alive)) is not None:
            self.ended = True
            self._carry_out(end)

    def _asked_to_end(self) -> None:
        """SIGTERM or SIGINT; a second one changes nothing."""
        if self.ended:
            return
        if self.serves:
            self.ended = True
            self._carry_out(self.front.asked(self))
        elif (code := self.front.interrupted(self.engine)) is not None:
            self.ended = True
            self.finished.set_result(code)

    def _carry_out(self, end: Awaitable[int]) -> None:
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


def _begin(front: Front, control: Control) -> tuple[socket.socket, list[Core]]:
    """Everything before the event loop: banner, port, engine cores. Raises StartFailure and OSError."""
    world = front.world
    if world.settings.control_file:
        control.obey_file(world.settings.control_file)
    world.clock.sleep(world.settings.boot_s)
    front.begin()
    taken = bind(world.launch.host, world.launch.port)
    front.listening()
    cores: list[Core] = []
    for rank in range(world.launch.data_parallel):
        pid, line = core_process.spawn(world, rank, [taken, *(core.line for core in cores)])
        cores.append(Core(rank, pid, line))
    return taken, cores


def serve(front: Front, title: str) -> int:
    """The whole process, named `title`. Returns its exit code."""
    set_title(title, command_line=False)
    control = Control(front.world.board, front.world.clock, front.world.settings.faults)
    try:
        taken, cores = _begin(front, control)
    except (StartFailure, OSError) as error:
        return front.refused(error)

    async def life() -> int:
        return await Server(front, control, taken, cores).run()

    code = asyncio.run(life())
    sys.stdout.flush()
    return code
