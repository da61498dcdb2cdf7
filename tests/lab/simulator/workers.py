"""Worker processes of one engine core: real ones, so that one can be stopped, killed or left as an orphan."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from dataclasses import dataclass
from functools import partial

from .dialect import Dialect, World
from .process import child, set_title, wait_for


class WorkerDied(Exception):
    """A worker is gone; the message is the executor's."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One of them, as the core sees it."""

    name: str
    rank: int
    pid: int
    line: socket.socket


def spawn(world: World, foreign: socket.socket) -> list[Worker]:
    """Fork them all; each ends when its core does. They do not keep the core's own line (`foreign`) open."""
    made: list[Worker] = []
    for rank, name in enumerate(world.dialect.crew(world.launch)):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            for unwanted in (ours, foreign, *(worker.line for worker in made)):
                unwanted.close()
            child(partial(_serve, world.dialect, name, theirs))
        theirs.close()
        made.append(Worker(name, rank, pid, ours))
    return made


def _serve(dialect: Dialect, name: str, line: socket.socket) -> None:
    """A worker's life: what comes goes back, until nobody is there."""
    set_title(dialect.title(name))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ConnectionError):
        while step := line.recv(1):
            line.send(step)
    dialect.orphaned(dialect.worker_log(name, os.getpid()))


def send(workers: list[Worker]) -> None:
    """Hand every worker the next step. Raises WorkerDied."""
    for worker in workers:
        try:
            worker.line.send(b".")
        except OSError:
            raise _died(worker) from None


def answered(workers: list[Worker], timeout: float) -> bool:
    """Whether all of them have done it within `timeout` real seconds; asks again only those that have not."""
    waiting = list(workers)
    while waiting:
        ready, _, _ = select.select([w.line for w in waiting], [], [], timeout)
        if not ready:
            workers[:] = waiting
            return False
        for worker in [w for w in waiting if w.line in ready]:
            if not worker.line.recv(1):
                raise _died(worker)
            waiting.remove(worker)
    return True


def watch(workers: list[Worker]) -> None:
    """Notice one that died while nothing runs. Raises WorkerDied."""
    ready, _, _ = select.select([w.line for w in workers], [], [], 0)
    for worker in workers:
        if worker.line in ready and not worker.line.recv(1, socket.MSG_PEEK):
            raise _died(worker)


def _died(worker: Worker) -> WorkerDied:
    code = wait_for(worker.pid)
    what = f"Worker proc VllmWorker-{worker.rank} died unexpectedly (exit code: {code}), shutting down executor."
    return WorkerDied(what)
