"""Worker processes of one engine core: real ones, so that one can be stopped, killed or left as an orphan."""

from __future__ import annotations

import os
import select
import signal
import socket
from dataclasses import dataclass

from .flags import Launch
from .log import Log
from .process import reap, set_title


class WorkerDied(Exception):
    """A worker is gone; the message is the executor's."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One of them, as the core sees it."""

    name: str
    pid: int
    line: socket.socket


def names(launch: Launch) -> list[str]:
    """Worker_PP0_TP0 and so on; an index is left out where there is but one."""
    made = []
    for stage in range(launch.pipeline_parallel):
        for shard in range(launch.tensor_parallel):
            pp = f"_PP{stage}" if launch.pipeline_parallel > 1 else ""
            tp = f"_TP{shard}" if launch.tensor_parallel > 1 else ""
            made.append(f"Worker{pp}{tp}")
    return made if launch.workers else []


def spawn(launch: Launch, foreign: socket.socket) -> list[Worker]:
    """Fork them all; each ends when its core does. They do not keep the core's own line (`foreign`) open."""
    made: list[Worker] = []
    for name in names(launch):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            foreign.close()
            for worker in made:
                worker.line.close()
            _serve(name, theirs)
        theirs.close()
        made.append(Worker(name, pid, ours))
    return made


def _serve(name: str, line: socket.socket) -> None:
    set_title(f"VLLM::{name}")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while step := line.recv(1):
        line.send(step)
    Log(name).note("multiproc_executor.py:843", "Parent process exited, terminating worker queues")
    os._exit(0)


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
    code = reap(worker.pid)
    index = worker.name.removeprefix("Worker")
    return WorkerDied(
        f"Worker proc VllmWorker-{index or 0} died unexpectedly (exit code: {code}), shutting down executor."
    )
