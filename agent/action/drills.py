"""Rehearsals of faults: what is done to which process, and the time line of what the agent did about it (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agent.action.store import Event
from agent.host.process import Process


class Drill(StrEnum):
    """What is rehearsed."""

    STALL = "stall"
    """SIGSTOP of the engine's core while a request runs."""
    ZOMBIE = "zombie"
    """A client that hangs up in the middle of its answer."""
    CRASH = "crash"
    """SIGKILL of the engine's core."""
    SLOW_START = "slow-start"
    """A restart whose engine is stopped for a while as it starts: no fault, and nothing should be done about it."""


CORE = re.compile(r"EngineCore|sglang::sched|scheduler_TP|trtllm|llama-server|exllama|tabby", re.IGNORECASE)
DETECTED = frozenset({"stalled", "zombie", "dead"})
SERVING = frozenset({"ready", "busy"})
STEPS = {
    "SaveEvidence": "evidence",
    "Abort": "aborted",
    "Stop": "stop begun",
    "Remove": "removed",
    "Start": "restarted",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that happened. `at`: seconds since the drill began."""

    at: float
    what: str
    text: str

    def to_json(self) -> dict[str, Any]:
        return {"at": round(self.at, 2), "what": self.what, "text": self.text}


def core_of(tree: Sequence[Process]) -> Process | None:
    """The process that does the work: by the name that engines give it, else the busiest below the first."""
    living = [one for one in tree if not one.ended]
    named = [one for one in living if CORE.search(f"{one.name} {' '.join(one.cmdline[:3])}")]
    if named:
        return max(named, key=lambda one: one.cpu_seconds)
    return max(living[1:] or living, key=lambda one: one.cpu_seconds, default=None)


def marks_of(events: Iterable[Event], began: float) -> list[Mark]:
    """What the agent saw and did, by its own events. `began`: seconds since the epoch."""
    found = []
    for event in events:
        what = word(event)
        if what is not None:
            found.append(Mark(event.at - began, what, event.text))
    return found


def word(event: Event) -> str | None:
    to = str(event.data.get("to", ""))
    if event.kind == "state" and to in DETECTED:
        return "detected"
    if event.kind == "state" and to in SERVING and event.data.get("from") not in SERVING:
        return "ready"
    if event.kind == "state" and to in ("failed", "quarantined"):
        return "given up"
    if event.kind == "step":
        return STEPS.get(str(event.data.get("step", "")))
    return None


def outcome(drill: Drill, marks: Sequence[Mark]) -> str | None:
    """How it ended, in one sentence; None while it goes on."""
    words = [mark.what for mark in marks]
    if "given up" in words:
        return f"failed: {marks[words.index('given up')].text}"
    if drill is Drill.SLOW_START:
        if "detected" in words:
            return "failed: a start that was only slow was taken for a fault"
        ready = last(marks, "ready") if "resumed" in words else None
        return f"ready after {ready.at:.0f} s; slow, and left alone" if ready is not None else None
    if drill is Drill.ZOMBIE and "freed" in words:
        return f"the engine freed the request by itself after {marks[words.index('freed')].at:.0f} s: no zombie"
    if "detected" not in words:
        return None
    at = words.index("detected")
    over = next((mark for mark in marks[at:] if mark.what == "ready"), None)
    if over is None:
        return None
    how = "restarted" if "restarted" in words[at:] else "healed"
    return f"detected after {marks[at].at:.0f} s, {how} and ready after {over.at:.0f} s"


def last(marks: Sequence[Mark], what: str) -> Mark | None:
    resumed = next((number for number, mark in enumerate(marks) if mark.what == "resumed"), 0)
    return next((mark for mark in marks[resumed:] if mark.what == what), None)
