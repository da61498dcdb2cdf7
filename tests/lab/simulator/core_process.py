"""The engine core: a process with a loop of steps, which hears of requests between two steps and never else."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import NoReturn

from . import startfail, workers
from .blocks import BlockPool
from .dialect import World
from .faults import Fault
from .hang import HangEnded, Hangs
from .line import Line
from .log import Log
from .orders import Message, Orders
from .process import child, set_title
from .scheduler import Scheduler
from .sequences import Rates, Step

_TICK = 0.01  # real seconds: how finely the loop follows its clock
_IDLE = 0.05  # real seconds between looks at the board
_LAG = 0.25  # real seconds of steps that are made up for after a pause of the process
_BLIND_STEP = 0.05  # engine seconds of a step that could schedule nothing


class EngineCore:
    """One rank. It talks JSON lines over a socket to the API server, and lives on when that is gone."""

    def __init__(self, world: World, connection: socket.socket, rank: int) -> None:
        self.world = world
        self.dialect = world.dialect
        self.log = world.dialect.log(world.launch, rank)
        self.blocks = world.settings.kv_tokens // world.launch.block_size
        self.scheduler = Scheduler(_rates(world), BlockPool(max(1, self.blocks - 1)), seed=rank)
        self.line = Line(connection)
        self.orders = Orders(self.scheduler, self.line)
        self.hangs = Hangs(world, self.log, self.line)
        self.workers: list[workers.Worker] = []
        self.inbox: list[Message] = []
        self.step: Step | None = None
        self.step_end = 0.0
        self.free_at = 0.0
        self.last_blind = 0.0
        self.last_word = 0.0
        self.idle = True
        self.terminated = False
        self.draining: float | None = None

    def run(self) -> NoReturn:
        """The process's whole life."""
        set_title(self.dialect.title(self.log.process))
        signal.signal(signal.SIGTERM, self._terminate)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._start()
            while True:
                self._tick()
        except startfail.StartFailure as failure:
            in_worker = failure.failure.where == "worker"
            self.dialect.failed(self.log, self._worker_log(), failure.message, in_worker=in_worker)
        except workers.WorkerDied as died:
            if self.terminated:
                os._exit(0)
            self.dialect.fatal(self.log, str(died), len(self.workers))
        except HangEnded as ended:
            self.dialect.fatal(self.log, str(ended), len(self.workers))
        os._exit(1)

    def _worker_log(self) -> Log:
        first = self.workers[0] if self.workers else None
        return self.dialect.worker_log(first.name, first.pid) if first else self.log

    def _start(self) -> None:
        self.workers = workers.spawn(self.world, self.line.socket)
        self.dialect.start(self.world, self.log, self._worker_log(), self.blocks)
        self.line.say(ready={"blocks": self.blocks})

    def _tick(self) -> None:
        self._obey_faults()
        self._advance(self.world.clock.now())
        self._publish()
        if self.terminated:
            self._drain()
        self.inbox += self.line.hear(self._patience())

    def _patience(self) -> float:
        """Real seconds until there is something to do."""
        if self.step is None:
            return _IDLE
        clock = self.world.clock
        return min(_IDLE, max(_TICK, clock.real(self.step_end - clock.now())))

    def _obey_faults(self) -> None:
        faults = self.world.board.faults()
        self.scheduler.slow_decode = _factor(faults.get("slow_decode"))
        self.scheduler.slow_prefill = _factor(faults.get("slow_prefill"))
        self.scheduler.flat = "kv_flat" in faults
        if "oom" in faults:
            error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
            self.dialect.fatal(self.log, error, len(self.workers))
            os._exit(1)
        if self.step is not None:
            return
        if self.workers:
            workers.watch(self.workers)
        if due := self.hangs.due(self.scheduler):
            self.hangs.stand_still(due)
            self.free_at = self.world.clock.now()

    def _advance(self, now: float) -> None:
        """Do all steps that end before `now`; stop where a hang is due."""
        earliest = now - _LAG / self.world.clock.scale
        while True:
            if self.step is None:
                self.free_at = max(self.free_at, earliest)
                self._read_inbox(now)
                self.step = self._next_step(now)
            if self.step is None or self.step_end > now:
                return
            if self.hangs.through(self.workers):
                self.step_end = self.world.clock.now()
            self.scheduler.finish(self.step, self.step_end)
            self.free_at = self.step_end
            self.step = None
            if self.hangs.due(self.scheduler):
                return

    def _next_step(self, now: float) -> Step | None:
        """Plan at the moment when the one before ended, or now after a rest."""
        if self.idle:
            self.free_at = now
        step = self.scheduler.plan(self.free_at)
        self.idle = step is None
        if step is not None:
            self.step_end = self.free_at + step.seconds
        elif self.scheduler.waiting and not self.scheduler.pause and now - self.last_blind > _BLIND_STEP:
            self.orders.refresh = True  # the loop spins on what it cannot schedule, and says so
            self.last_blind = now
        return step

    def _read_inbox(self, now: float) -> None:
        for message in self.inbox:
            self.orders.obey(message, now)
        self.inbox.clear()

    def _publish(self) -> None:
        """SchedulerStats: with every step, also one without outputs, and after an abort; a beat where one is due."""
        if not self.scheduler.report.steps and not self.orders.refresh and not self._beat_due():
            return
        self.orders.refresh = False
        self.last_word = self.world.clock.now()
        report, gauges = asdict(self.scheduler.take_report()), self.scheduler.gauges()
        self.dialect.steps(self.log, report, gauges, self.scheduler.take_crowd())
        self.line.say(stats=report, gauges=gauges)

    def _beat_due(self) -> bool:
        beat = self.dialect.beat_s
        return beat is not None and self.idle and self.world.clock.now() - self.last_word >= beat

    def _terminate(self, _number: int, _frame: object) -> None:
        self.terminated = True

    def _drain(self) -> None:
        now = self.world.clock.now()
        if self.draining is None:
            timeout = self.world.launch.shutdown_timeout
            self.draining = now + timeout
            requests = len(self.scheduler.running) + len(self.scheduler.waiting)
            self.dialect.terminated(self.log, timeout, requests)
        left = any(not r.held for r in self.scheduler.running) or bool(self.scheduler.waiting)
        if not left or now >= self.draining:
            self.dialect.drained(self.log)
            os._exit(0)


def _factor(fault: Fault | None) -> float:
    return fault.number(10.0) if fault else 1.0


def _rates(world: World) -> Rates:
    launch, settings = world.launch, world.settings
    return Rates(
        prefill_tok_s=settings.prefill_tok_s,
        decode_tok_s=settings.decode_tok_s,
        batch_cost=settings.batch_cost,
        batch_tokens=launch.batch_tokens,
        max_running=launch.max_running,
        block_size=launch.block_size,
        spec_tokens=launch.spec_tokens,
        spec_accept=settings.spec_accept,
        flops_per_token=2 * settings.active_params / (launch.tensor_parallel * launch.pipeline_parallel),
    )


def spawn(world: World, rank: int, foreign: Sequence[socket.socket]) -> tuple[int, socket.socket]:
    """Fork an engine core. Returns its pid and the server's end of the line.

    `foreign` are sockets of the server that the core must not keep open: a port that an orphan holds is not free.
    """
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        for unwanted in (ours, *foreign):
            unwanted.close()
        child(EngineCore(world, theirs, rank).run)
    theirs.close()
    return pid, ours
