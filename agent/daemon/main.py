"""recipe-agent: start, serve, leave. Engines are left running, whatever way it ends."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import structlog

from agent.adapters.sd_notify import SdNotify
from agent.adapters.state_lock import StateLock
from agent.daemon.assemble import Daemon, LoopMaker, assemble
from agent.daemon.doors import Doors
from agent.daemon.guard import cancelled, forever
from agent.daemon.housekeeping import Housekeeping
from agent.daemon.log import correlate, last_word, set_up
from agent.daemon.site import Site
from agent.errors import AgentError
from agent.quantity import counted
from agent.settings.load import Loaded, load
from agent.version import VERSION
from agent.wiring import Parts

log = structlog.get_logger()
LEAVE_S = 10.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; the exit code."""
    arguments = options().parse_args(argv)
    if arguments.version:
        sys.stdout.write(f"recipe-agent {VERSION}\n")
        return 0
    try:
        path = Path(arguments.config) if arguments.config else None
        loaded = load(path, os.environ)
        parts = Parts(loaded.settings)
        set_up(loaded.settings.logs.level, loaded.settings.logs.form, parts.veil)
        asyncio.run(serve(path, loaded, parts))
    except AgentError as error:
        last_word(error)
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


async def serve(path: Path | None, loaded: Loaded, parts: Parts) -> None:
    """The daemon's whole life."""
    lock = StateLock(loaded.settings.paths.state)
    daemon = await assemble(parts)
    daemon.site.files, daemon.site.loaded = loaded.files, parts.clock.now().wall
    doors = Doors(daemon.desk, loaded.settings, parts.veil)
    fleet, notify = daemon.fleet, SdNotify()
    housekeeping = Housekeeping(daemon)
    site = Site(path, parts, doors, daemon.store, parts.clock, fleet.told, notify, daemon.site, housekeeping.plan)
    stop, again = leave_on_signals(), read_again_on_hangup()
    correlate(fleet.current)
    tasks: list[asyncio.Task[None]] = []
    try:
        await asyncio.to_thread(parts.learn_secrets)
        await fleet.start(LoopMaker(daemon).making())
        await daemon.verifier.recover()
        await daemon.drills.recover()
        works: dict[str, Callable[[], Awaitable[None]]] = {
            "host watch": daemon.watch.run,
            "live claims": daemon.live.run,
            "watchdog": partial(feed, daemon, notify),
        }
        works |= {"keys": doors.watch, "site file": partial(follow, again, site)}
        told = daemon.notifier
        works |= {"messages": told.listen, "their delivery": told.carry, "heartbeat": told.pulse}
        await housekeeping.start()
        await doors.open()
        tasks += [asyncio.create_task(forever(name, work), name=name) for name, work in works.items()]
        notify.say("READY=1", f"STATUS=watches {counted(len(fleet.loops), 'deployment')}")
        log.info("started", version=VERSION, deployments=len(fleet.loops), pid=os.getpid())
        await stop.wait()
        notify.say("STOPPING=1")
        log.info("leaves", engines="left running")
    finally:
        housekeeping.stop()
        await close(daemon, doors, tasks)
        lock.release()


async def follow(again: asyncio.Event, site: Site) -> None:
    """Reads the site file again whenever that is asked for."""
    while True:
        await again.wait()
        again.clear()
        await site.reload()


def read_again_on_hangup() -> asyncio.Event:
    """Set by each SIGHUP."""
    again = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, again.set)
    return again


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


async def close(daemon: Daemon, doors: Doors, tasks: list[asyncio.Task[None]]) -> None:
    """In a bounded time, whatever hangs: what is left ends with the process, and engines are not touched."""
    try:
        async with asyncio.timeout(LEAVE_S):
            await doors.close()
            await cancelled(*tasks)
            await daemon.close()
    except TimeoutError:
        log.warning("left_in_a_hurry", reason=f"something did not end within {LEAVE_S:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
