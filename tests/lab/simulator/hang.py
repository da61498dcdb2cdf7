"""How an engine core hangs: when it begins, what it says meanwhile, and when its executor gives up."""

from __future__ import annotations

import time

from . import workers
from .dialect import Patience, World
from .faults import Fault
from .line import Line
from .log import Log
from .scheduler import Scheduler

_LOOK = 0.01  # real seconds between looks at the board
_ROUND = 0.05  # real seconds between two rounds through the workers


class HangEnded(Exception):
    """Somebody lost patience with the hang; the message is the error that ends the process."""


class Hangs:
    """The hangs that the board asks for, and those that a stopped worker brings."""

    def __init__(self, world: World, log: Log, line: Line) -> None:
        self.world = world
        self.board = world.board
        self.clock = world.clock
        self.log = log
        self.line = line
        self.last_round = 0.0

    def due(self, scheduler: Scheduler) -> Fault | None:
        """The hang that begins between two steps: a busy one while a request runs, an idle one when nothing is here."""
        faults = self.board.faults()
        if scheduler.running:
            return faults.get("stall") or faults.get("worker_hang")
        return None if scheduler.waiting else faults.get("stall_idle")

    def stand_still(self, fault: Fault) -> None:
        """No step, no message heard, until the fault is off the board. Raises HangEnded."""
        patience = self.world.dialect.patience(self.world, fault.kind)
        began, told, asked = self.clock.now(), 0, False
        while self.board.get(fault.kind) == fault:
            spent = self.clock.now() - began
            told = self._tell(patience, spent, told)
            if fault.for_s is not None and spent >= fault.for_s and not asked:
                self.line.say(heal=fault.kind)
                asked = True
            time.sleep(_LOOK)

    def through(self, crew: list[workers.Worker]) -> bool:
        """A round of a step through all workers; a stopped one holds it up. True where it took 60 s or more.

        Raises WorkerDied and HangEnded.
        """
        if not crew or self.clock.now() - self.last_round < _ROUND / self.clock.scale:
            return False
        workers.send(crew)
        waiting = list(crew)
        patience = self.world.dialect.patience(self.world, "worker_hang")
        began, told = self.clock.now(), 0
        while not workers.answered(waiting, 2 * _LOOK):
            told = self._tell(patience, self.clock.now() - began, told)
        self.last_round = self.clock.now()
        return told > 0

    def _tell(self, patience: Patience, spent: float, told: int) -> int:
        if patience.seconds is not None and spent >= patience.seconds:
            raise HangEnded(patience.error)
        if patience.minutely and spent // 60 > told:
            self.log.note(*patience.minutely)
        return int(spent // 60)
