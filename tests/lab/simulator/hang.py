"""How an engine core hangs: when it begins, what it says meanwhile, and when its executor gives up."""

from __future__ import annotations

import time

from . import workers
from .clock import Clock
from .faults import Board, Fault
from .line import Line
from .log import Log
from .scheduler import Scheduler

_LOOK = 0.01  # real seconds between looks at the board
_ROUND = 0.05  # real seconds between two rounds through the workers
_SHM = (
    "No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are "
    "hanging or doing some time-consuming work (e.g. compilation, weight/kv cache quantization)."
)


class ExecutorTimeout(Exception):
    """The executor waited in vain for its workers."""


class Hangs:
    """The hangs that the board asks for, and those that a stopped worker brings."""

    def __init__(self, board: Board, clock: Clock, log: Log, line: Line, timeout: float) -> None:
        self.board = board
        self.clock = clock
        self.log = log
        self.line = line
        self.timeout = timeout
        self.last_round = 0.0

    def due(self, scheduler: Scheduler) -> Fault | None:
        """The hang that begins between two steps: a busy one while a request runs, an idle one when nothing is here."""
        faults = self.board.faults()
        if scheduler.running:
            return faults.get("stall") or faults.get("worker_hang")
        return None if scheduler.waiting else faults.get("stall_idle")

    def stand_still(self, fault: Fault) -> None:
        """No step, no message heard, until the fault is off the board. Raises ExecutorTimeout."""
        began, told, asked = self.clock.now(), 0, False
        while self.board.get(fault.kind) == fault:
            spent = self.clock.now() - began
            if fault.kind == "worker_hang":
                told = self._tell(spent, told)
            if fault.for_s is not None and spent >= fault.for_s and not asked:
                self.line.say(heal=fault.kind)
                asked = True
            time.sleep(_LOOK)

    def through(self, crew: list[workers.Worker]) -> bool:
        """A round of a step through all workers; a stopped one holds it up. True where it took 60 s or more.

        Raises WorkerDied and ExecutorTimeout.
        """
        if not crew or self.clock.now() - self.last_round < _ROUND / self.clock.scale:
            return False
        workers.send(crew)
        waiting = list(crew)
        began, told = self.clock.now(), 0
        while not workers.answered(waiting, 2 * _LOOK):
            told = self._tell(self.clock.now() - began, told)
        self.last_round = self.clock.now()
        return told > 0

    def _tell(self, spent: float, told: int) -> int:
        if spent >= self.timeout:
            raise ExecutorTimeout("TimeoutError: RPC call to execute_model timed out.")
        if spent // 60 > told:
            self.log.note("shm_broadcast.py:871", _SHM)
        return int(spent // 60)
