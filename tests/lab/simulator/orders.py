"""What the API server can ask of an engine core, each obeyed between two steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .line import Line
from .scheduler import Scheduler
from .sequences import Request

Message = dict[str, Any]


class Orders:
    """Obeys messages. `refresh` says that the gauges must be told even if no step follows."""

    def __init__(self, scheduler: Scheduler, line: Line) -> None:
        self.scheduler = scheduler
        self.line = line
        self.refresh = False
        self._table: dict[str, Callable[[Message, float], None]] = {
            "add": self._add,
            "abort": self._abort,
            "hold": self._hold,
            "release": self._release,
            "pause": self._pause,
            "resume": self._resume,
            "sleep": self._sleep,
            "ask": self._ask,
            "look": self._look,
            "forget": self._forget,
            "drop_all": self._drop_all,
        }

    def obey(self, message: Message, now: float) -> None:
        """One message."""
        self._table[message["op"]](message, now)

    def _add(self, message: Message, now: float) -> None:
        wanted = {key: message[key] for key in ("id", "prompt", "max_tokens", "hashes", "stops_at")}
        self.scheduler.add(Request(**wanted, arrived=now))

    def _drop(self, requests: list[Request]) -> None:
        for request in requests:
            self.scheduler.drop(request)
            self.refresh = True

    def _abort(self, message: Message, _now: float) -> None:
        self._drop([r for r in map(self.scheduler.find, message["ids"]) if r is not None])

    def _hold(self, message: Message, _now: float) -> None:
        """A zombie: its client has gone and nobody tells the scheduler."""
        request = self.scheduler.find(message["id"])
        if request in self.scheduler.running:
            request.held = True
        elif request is not None:
            self._drop([request])

    def _release(self, _message: Message, _now: float) -> None:
        self._drop([r for r in self.scheduler.running if r.held])

    def _pause(self, message: Message, _now: float) -> None:
        self.scheduler.pause = message["mode"]
        if message["mode"] == "abort":
            self._end_all()
        if message["clear_cache"]:
            self.scheduler.pool.forget()
        self._reply(message)

    def _end_all(self) -> None:
        gone = [*self.scheduler.running, *self.scheduler.waiting]
        self._drop(gone)
        self.line.say(aborted=[r.id for r in gone])

    def _drop_all(self, message: Message, _now: float) -> None:
        self._end_all()
        self._reply(message)

    def _resume(self, message: Message, _now: float) -> None:
        self.scheduler.pause = ""
        self._reply(message)

    def _sleep(self, message: Message, _now: float) -> None:
        self.scheduler.asleep = message["level"]
        self.scheduler.pool.forget()
        self._reply(message)

    def _ask(self, message: Message, _now: float) -> None:
        asleep, paused = self.scheduler.asleep > 0, self.scheduler.pause != ""
        self._reply(message, {"asleep": asleep, "paused": paused}[message["what"]])

    def _look(self, message: Message, _now: float) -> None:
        """What runs, and how far it is."""
        self._reply(message, [
            {"id": r.id, "slot": r.slot, "task": r.task, "prompt": r.prompt, "cached": r.cached,
             "computed": r.computed, "generated": r.generated, "most": r.max_tokens}
            for r in self.scheduler.running
        ])  # fmt: skip

    def _forget(self, message: Message, _now: float) -> None:
        self.scheduler.pool.forget()
        self._reply(message)

    def _reply(self, message: Message, value: object = True) -> None:
        self.line.say(reply=message["token"], value=value)
