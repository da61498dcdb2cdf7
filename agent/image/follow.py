"""A build in words: which step, what it printed last, and the tail of the one that failed (pure)."""

from __future__ import annotations

import re
from collections import deque

from agent.image.buildplan import BuildPlan
from agent.image.dockerfile import Dockerfile
from agent.image.port import BuildEvent, Say
from agent.image.trouble import BuildFailed

TAIL = 40
"""Lines of output that are kept of a step."""
WIDTH = 160
NO_ROOM = (
    "free room where the engine keeps its images (docker system df); the next build goes on from the last finished step"
)

# colours, and whatever else a terminal would take for an order
_STDERR = "\x1b[91m"
"""How the classic builder begins what came on standard error."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Following:
    """Folds what the builder says; says one line a step, and its last output."""

    def __init__(self, plan: BuildPlan, dockerfile: Dockerfile, say: Say) -> None:
        self._plan = plan
        self._dockerfile = dockerfile
        self._say = say
        self._at = BuildEvent(0, 0)
        self._cached: set[int] = set()
        self._tail: deque[str] = deque(maxlen=TAIL)
        self._complaint = ""
        """The last line on standard error, whose place among the others nobody knows: two pipes have no order."""

    def note(self, event: BuildEvent) -> None:
        if event.instruction != self._at.instruction:
            self._tail.clear()
            self._complaint = ""
            self._at = event
        if event.cached:
            self._cached.add(event.instruction)
            return
        text = _ESCAPES.sub("", event.output).replace("\r", "\n")
        lines = [line.rstrip()[:WIDTH] for line in text.splitlines() if line.strip()]
        self._tail.extend(lines)
        if lines and _STDERR in event.output:
            self._complaint = lines[-1]
        last = f": {lines[-1]}" if lines else ""
        ratio = (event.instruction - 1) / event.of if event.of else None
        stage = f"building {self._plan.reference}, {self.step()}"
        self._say({"text": f"{stage}{last}", "ratio": ratio, "stage": stage})

    def step(self) -> str:
        """`step 4 of 10 (run patches/a.py of recipe)`."""
        steps = self._dockerfile.steps
        number = steps[self._at.instruction - 1] if 0 < self._at.instruction <= len(steps) else 0
        if not number:
            return "the base image"
        return f"step {number} of {len(self._plan.steps)} ({self._dockerfile.titles.get(number, '')})"

    def summary(self) -> str:
        """`built NAME; 6 of 9 instructions were finished before`."""
        kept = f"; {len(self._cached)} of {self._at.of} instructions were there" if self._cached else ""
        return f"built {self._plan.reference}{kept}"

    def failure(self, why: str) -> BuildFailed:
        """The failing step with the tail of its output."""
        tail = list(self._tail)
        advice = NO_ROOM if "no space left" in " ".join([why, *tail]).lower() else None
        last = self._complaint or (tail[-1] if tail else "")
        said = f"{why}; its last line: {last}" if last else why
        return BuildFailed(reference=self._plan.reference, step=self.step(), why=said, advice=advice, output=tail)
