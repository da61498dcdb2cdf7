"""The engine core: a process with a loop of steps, which hears of requests between two steps and never else."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NoReturn

from . import startfail, workers
from .blocks import BlockPool
from .clock import Clock
from .faults import Board, Fault
from .flags import Launch
from .log import Log, traceback
from .process import set_title
from .scheduler import Rates, Request, Scheduler, Step
from .settings import Settings
from .startup import Start

_TICK = 0.005  # real seconds: how finely the loop follows its clock
_IDLE = 0.05  # real seconds between looks at the board
_ROUND = 0.05  # real seconds between two rounds through the workers
_LAG = 0.25  # real seconds of steps that are made up for after a pause of the process
_BLIND_STEP = 0.05  # engine seconds of a step that could schedule nothing


class EngineCore:
    """One rank. It talks JSON lines over a socket to the API server, and lives on when that is gone."""

    def __init__(self, launch: Launch, settings: Settings, clock: Clock, board: Board, line: socket.socket, rank: int):
        self.launch = launch
        self.settings = settings
        self.clock = clock
        self.board = board
        self.line = line
        self.log = Log("EngineCore" if launch.data_parallel == 1 else f"EngineCore_DP{rank}")
        self.rank = rank
        self.blocks = settings.kv_tokens // launch.block_size
        self.scheduler = Scheduler(_rates(launch, settings), BlockPool(max(1, self.blocks - 1)), seed=rank)
        self.workers: list[workers.Worker] = []
        self.inbox: list[dict[str, Any]] = []
        self.buffer = b""
        self.step: Step | None = None
        self.step_end = 0.0
        self.free_at = 0.0
        self.last_round = 0.0
        self.last_blind = 0.0
        self.terminated = False
        self.draining: float | None = None
        self.refresh = False
        self.idle = True

    def run(self) -> NoReturn:
        """The process's whole life."""
        set_title(f"VLLM::{self.log.process}")
        signal.signal(signal.SIGTERM, self._terminate)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._start()
            while True:
                self._tick()
        except startfail.StartFailure as failure:
            startfail.tell_core(self.log, self._worker_log(), failure)
            self._send({"failed": self.log.process})
        except workers.WorkerDied as died:
            if self.terminated:
                os._exit(0)
            self.log.alarm("multiproc_executor.py:315", str(died))
            self._fatal("RuntimeError: Executor failed.")
        except TimeoutError as error:
            self._fatal(f"TimeoutError: {error}")
        os._exit(1)

    def _worker_log(self) -> Log:
        return Log(self.workers[0].name, self.workers[0].pid) if self.workers else self.log

    def _start(self) -> None:
        self.workers = workers.spawn(self.launch, self.line)
        Start(self.launch, self.settings, self.clock, self.board, self.log).run(self._worker_log(), self.blocks)
        self._send({"ready": {"blocks": self.blocks, "pid": os.getpid()}})

    def _fatal(self, error: str) -> None:
        self.log.alarm("core.py:1512", "EngineCore encountered a fatal error.")
        self.log.alarm("core.py:1512", traceback(error, ("engine_core.run_busy_loop()",)))
        self.log.note(
            "multiproc_executor.py:479", f"[shutdown] Executor: waiting for worker exit count={len(self.workers)}"
        )

    def _tick(self) -> None:
        self._obey_faults()
        now = self.clock.now()
        self._advance(now)
        if self.scheduler.report.steps or self.refresh:
            self._publish()
        if self.terminated:
            self._drain(now)
        self._listen(self._patience())

    def _patience(self) -> float:
        """Real seconds until there is something to do."""
        if self.step is None:
            return _IDLE
        return min(_IDLE, max(_TICK, self.clock.real(self.step_end - self.clock.now())))

    def _listen(self, patience: float) -> None:
        ready, _, _ = select.select([self.line] if self.line.fileno() >= 0 else [], [], [], patience)
        if not ready:
            return
        data = self.line.recv(1 << 20)
        if not data:  # the server is gone: an orphan keeps what it has and goes on with it
            self.line.close()
            return
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        self.inbox += [json.loads(line) for line in lines]

    def _advance(self, now: float) -> None:
        """Do all steps that end before `now`."""
        earliest = now - _LAG / self.clock.scale
        while True:
            if self.step is None:
                self.free_at = max(self.free_at, earliest)
                self._read_inbox(now)
                self.step = self._next_step(now)
                if self.step is None:
                    return
            if self.step_end > now:
                return
            self._through_workers()
            self.scheduler.finish(self.step, self.step_end)
            self.free_at = self.step_end
            self.step = None
            if self._hang_due():
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
            self.refresh, self.last_blind = True, now  # the loop spins on what it cannot schedule, and says so
        return step

    def _read_inbox(self, now: float) -> None:
        for message in self.inbox:
            getattr(self, f"_on_{message['op']}")(message, now)
        self.inbox.clear()

    def _on_add(self, message: dict[str, Any], now: float) -> None:
        self.scheduler.add(Request(message["id"], message["prompt"], message["max_tokens"], message["hashes"],
                                   message["stops_at"], now))  # fmt: skip

    def _on_abort(self, message: dict[str, Any], _now: float) -> None:
        for request in [self.scheduler.find(i) for i in message["ids"]]:
            if request is not None:
                self.scheduler.drop(request)
                self.refresh = True

    def _on_hold(self, message: dict[str, Any], _now: float) -> None:
        """A zombie: its client has gone and nobody tells the scheduler."""
        if (request := self.scheduler.find(message["id"])) is not None:
            if request in self.scheduler.waiting:
                self.scheduler.drop(request)
            request.held = True

    def _on_release(self, _message: dict[str, Any], _now: float) -> None:
        for request in [r for r in self.scheduler.running if r.held]:
            self.scheduler.drop(request)
            self.refresh = True

    def _on_pause(self, message: dict[str, Any], _now: float) -> None:
        self.scheduler.pause = message["mode"]
        if message["mode"] == "abort":
            gone = [*self.scheduler.running, *self.scheduler.waiting]
            for request in gone:
                self.scheduler.drop(request)
            self._send({"aborted": [r.id for r in gone]})
            self.refresh = True
        if message["clear_cache"]:
            self.scheduler.pool.forget()
        self._send({"reply": message["token"], "value": True})

    def _on_resume(self, message: dict[str, Any], _now: float) -> None:
        self.scheduler.pause = ""
        self._send({"reply": message["token"], "value": True})

    def _on_sleep(self, message: dict[str, Any], _now: float) -> None:
        self.scheduler.asleep = message["level"]
        self.scheduler.pool.forget()
        self._send({"reply": message["token"], "value": True})

    def _on_ask(self, message: dict[str, Any], _now: float) -> None:
        value = self.scheduler.asleep > 0 if message["what"] == "asleep" else self.scheduler.pause != ""
        self._send({"reply": message["token"], "value": value})

    def _on_forget(self, message: dict[str, Any], _now: float) -> None:
        self.scheduler.pool.forget()
        self._send({"reply": message["token"], "value": True})

    def _publish(self) -> None:
        scheduler = self.scheduler
        self.refresh = False
        self._send({
            "stats": asdict(scheduler.take_report()),
            "running": len(scheduler.running),
            "waiting": len(scheduler.waiting),
            "usage": 0.0 if self.board.get("kv_flat") else scheduler.pool.usage,
        })  # fmt: skip

    def _send(self, message: dict[str, Any]) -> None:
        if self.line.fileno() < 0:
            return
        try:
            self.line.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self.line.close()

    def _obey_faults(self) -> None:
        faults = self.board.faults()
        self.scheduler.slow_decode = _factor(faults.get("slow_decode"))
        self.scheduler.slow_prefill = _factor(faults.get("slow_prefill"))
        if "oom" in faults:
            self._fatal("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
            os._exit(1)
        if self.workers and self.step is None:
            workers.watch(self.workers)
        if due := self._hang_due():
            self._hang(due)

    def _hang_due(self) -> Fault | None:
        """The hang that begins now: a busy one only after a step of a request, an idle one only when nothing runs."""
        busy = bool(self.scheduler.running)
        between = self.step is None
        faults = self.board.faults()
        if busy and between and (due := faults.get("stall") or faults.get("worker_hang")):
            return due
        return faults.get("stall_idle") if not busy and not self.scheduler.waiting else None

    def _hang(self, fault: Fault) -> None:
        """Stand still: no step, no message heard, until the fault is cleared or its time is over."""
        if self.scheduler.report.steps or self.refresh:
            self._publish()
        began, told = self.clock.now(), 0
        while self.board.get(fault.kind) == fault:
            spent = self.clock.now() - began
            if fault.for_s is not None and spent >= fault.for_s:
                self._send({"heal": fault.kind})
                break
            if fault.kind == "worker_hang":
                told = self._tell_hang(spent, told)
            select.select([], [], [], 0.01)
        while self.board.get(fault.kind) == fault:  # until the server has taken it off the board
            select.select([], [], [], 0.005)
        self.free_at = self.clock.now()

    def _tell_hang(self, spent: float, told: int) -> int:
        """A line per 60 s; at the executor's own timeout, TimeoutError."""
        if spent >= self.settings.execute_timeout_s:
            raise TimeoutError("RPC call to execute_model timed out.")
        if spent // 60 > told:
            self.log.note(
                "shm_broadcast.py:871",
                "No available shared memory broadcast block found in 60 seconds. This typically happens when some "
                "processes are hanging or doing some time-consuming work (e.g. compilation, weight/kv cache "
                "quantization).",
            )
        return int(spent // 60)

    def _through_workers(self) -> None:
        """A step goes through every worker; a stopped one holds the engine up, with the lines that this brings."""
        if not self.workers or self.clock.now() - self.last_round < _ROUND / self.clock.scale:
            return
        workers.send(self.workers)
        waiting = list(self.workers)
        began, told = self.clock.now(), 0
        while not workers.answered(waiting, 0.02):
            told = self._tell_hang(self.clock.now() - began, told)
        if told:
            self.free_at = self.step_end = self.clock.now()
        self.last_round = self.clock.now()

    def _terminate(self, _number: int, _frame: object) -> None:
        self.terminated = True

    def _begin_drain(self, now: float) -> float:
        timeout = self.launch.shutdown_timeout
        mode = "drain" if timeout else "abort"
        self.log.note("core.py:1454", "[shutdown] EngineCore: trigger received signal=SIGTERM")
        self.log.note("core.py:1635", f"[shutdown] EngineCore: start mode={mode} timeout={timeout}s")
        count = len(self.scheduler.running) + len(self.scheduler.waiting)
        if timeout and count:
            what = f"draining in-flight requests count={count} timeout={timeout}s"
            self.log.note("core.py:1655", f"[shutdown] EngineCore: {what}")
        return now + timeout

    def _drain(self, now: float) -> None:
        if self.draining is None:
            self.draining = self._begin_drain(now)
        left = any(not r.held for r in self.scheduler.running) or bool(self.scheduler.waiting)
        if left and now < self.draining:
            return
        self.log.note("core.py:1666", "[shutdown] EngineCore: request processing complete; starting resource teardown")
        self.log.note("core.py:1499", "[shutdown] EngineCore: exiting busy loop")
        os._exit(0)


def _factor(fault: Fault | None) -> float:
    return fault.number(10.0) if fault else 1.0


def _rates(launch: Launch, settings: Settings) -> Rates:
    gpus = launch.tensor_parallel * launch.pipeline_parallel
    return Rates(
        prefill_tok_s=settings.prefill_tok_s,
        decode_tok_s=settings.decode_tok_s,
        batch_cost=settings.batch_cost,
        batch_tokens=launch.batch_tokens,
        max_running=launch.max_running,
        block_size=launch.block_size,
        spec_tokens=launch.spec_tokens,
        spec_accept=settings.spec_accept,
        flops_per_token=2 * settings.active_params / gpus,
    )


def spawn(
    launch: Launch, settings: Settings, clock: Clock, board: Board, rank: int, foreign: Sequence[socket.socket]
) -> tuple[int, socket.socket]:
    """Fork an engine core. Returns its pid and the server's end of the line.

    `foreign` are sockets of the server that the core must not keep open: a port that an orphan holds is not free.
    """
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        for unwanted in (ours, *foreign):
            unwanted.close()
        EngineCore(launch, settings, clock, board, theirs, rank).run()
    theirs.close()
    return pid, ours
