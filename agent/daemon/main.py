"""recipe-agent: start, serve, leave. Engines are left running, whatever way it ends."""

from __future__ import annotations

import argparse
import asyncio
import grp
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import structlog
from aiohttp import web

from agent.adapters.sd_notify import SdNotify
from agent.adapters.state_lock import StateLock
from agent.api.app import make_app
from agent.daemon.assemble import Daemon, LoopMaker, assemble
from agent.daemon.guard import cancelled, forever
from agent.daemon.housekeeping import Housekeeping
from agent.daemon.log import set_up
from agent.errors import AgentError
from agent.settings.load import load
from agent.settings.model import Settings
from agent.version import VERSION
from agent.wiring import Parts

log = structlog.get_logger()
GROUP = "recipe-agent"
LEAVE_S = 10.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; the exit code."""
    arguments = options().parse_args(argv)
    if arguments.version:
        sys.stdout.write(f"recipe-agent {VERSION}\n")
        return 0
    try:
        path = Path(arguments.config) if arguments.config else None
        settings = load(path, os.environ).settings
        set_up(settings.logs.level, settings.logs.form)
        asyncio.run(serve(settings))
    except AgentError as error:
        sys.stderr.write(f"error: {error.text}\n" + (f"hint: {error.advice}\n" if error.advice else ""))
        return error.exit_code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recipe-agent", description="Runs inference recipes and watches over them.")
    parser.add_argument("--config", metavar="FILE", help="site file (default /etc/recipe-agent/agent.yaml)")
    parser.add_argument("--version", action="store_true", help="print the version and end")
    return parser


async def serve(settings: Settings) -> None:
    """The daemon's whole life."""
    lock = StateLock(settings.paths.state)
    daemon = await assemble(Parts(settings))
    notify = SdNotify()
    stop = leave_on_signals()
    servers: list[web.AppRunner] = []
    tasks: list[asyncio.Task[None]] = []
    housekeeping = Housekeeping(daemon)
    try:
        await daemon.fleet.start(LoopMaker(daemon).making())
        tasks += [
            asyncio.create_task(forever("host watch", daemon.watch.run), name="host watch"),
            asyncio.create_task(forever("watchdog", lambda: feed(daemon, notify)), name="watchdog"),
        ]
        housekeeping.start()
        servers += await open_doors(daemon, settings)
        notify.say("READY=1", f"STATUS=watches {len(daemon.fleet.loops)} deployments")
        log.info("started", version=VERSION, deployments=len(daemon.fleet.loops), pid=os.getpid())
        await stop.wait()
        notify.say("STOPPING=1")
        log.info("leaves", engines="left running")
    finally:
        housekeeping.stop()
        await close(daemon, servers, tasks)
        lock.release()


def leave_on_signals() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; a second ends at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def leave() -> None:
        if stop.is_set():
            os._exit(0)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    return stop


async def feed(daemon: Daemon, notify: SdNotify) -> None:
    """A sign of life, only while every loop really turns."""
    if notify.watchdog_s is None:
        return
    while True:
        why = daemon.fleet.turning()
        if why is None:
            notify.say("WATCHDOG=1", f"STATUS={daemon.fleet.sentence()}")
        else:
            log.warning("no_sign_of_life", reason=why)
        await asyncio.sleep(notify.watchdog_s / 3)


async def open_doors(daemon: Daemon, settings: Settings) -> list[web.AppRunner]:
    """The unix socket, and TCP where the site wants it."""
    runners = [await unix_door(daemon, settings.paths.socket)]
    if settings.listen.port:
        runners.append(await tcp_door(daemon, settings))
    return runners


async def unix_door(daemon: Daemon, path: Path) -> web.AppRunner:
    """Everything is allowed here, to who may open the file: its owner and the group recipe-agent."""
    clear_place(path)
    runner = await runner_for(make_app(daemon.desk, local=True))
    before = os.umask(0o117)
    try:
        await web.UnixSite(runner, str(path)).start()
    finally:
        os.umask(before)
    give_to_group(path)
    return runner


def clear_place(path: Path) -> None:
    """A killed agent leaves its socket behind; the lock on the state folder says that nobody serves it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)


def give_to_group(path: Path) -> None:
    try:
        os.chown(path, -1, grp.getgrnam(GROUP).gr_gid)
    except (KeyError, PermissionError):
        log.debug("socket_group", path=str(path), reason=f"no group {GROUP}, or no right to give the socket to it")


async def tcp_door(daemon: Daemon, settings: Settings) -> web.AppRunner:
    """Read-only without a token."""
    token = token_of(settings)
    runner = await runner_for(make_app(daemon.desk, local=False, token=token))
    listen = settings.listen
    try:
        await web.TCPSite(runner, listen.address, listen.port).start()
    except OSError as error:
        raise PortTaken(where=f"{listen.address}:{listen.port}", why=error.strerror or error) from error
    return runner


class PortTaken(AgentError):
    """The TCP side cannot be opened."""

    code = "listen.failed"
    message = "cannot listen on {where}: {why}"
    hint = "set listen.port in agent.yaml to a free port, or to 0 for the unix socket alone"


def token_of(settings: Settings) -> str:
    file = getattr(settings.listen, "token_file", None)
    return file.read_text().strip() if file else ""


async def runner_for(app: web.Application) -> web.AppRunner:
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    return runner


async def close(daemon: Daemon, servers: list[web.AppRunner], tasks: list[asyncio.Task[None]]) -> None:
    """In a bounded time, whatever hangs: what is left ends with the process, and engines are not touched."""
    try:
        async with asyncio.timeout(LEAVE_S):
            for server in servers:
                await server.cleanup()
            await cancelled(*tasks)
            await daemon.close()
    except TimeoutError:
        log.warning("left_in_a_hurry", reason=f"something did not end within {LEAVE_S:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
