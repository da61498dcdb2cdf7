"""An engine's log, followed as it is written: the meaning for verdicts, the last lines for evidence."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent.container.port import LogLine
from agent.engines.lines import is_echo
from agent.engines.model import LogEvent

KEPT_LINES = 2000
LONGEST_LINE = 4096
KEPT_EVENTS = 500


@dataclass(slots=True)
class LogTail:
    """The end of one generation's log. Bounded: a zombie once wrote 148,000 lines in two hours."""

    read: Callable[[str], LogEvent | None]
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    fresh: deque[LogEvent] = field(default_factory=lambda: deque(maxlen=KEPT_EVENTS))
    wanted: tuple[str, ...] = ()
    """Words that must be seen in some line (profile `acceptance.log_lines`)."""
    seen: set[str] = field(default_factory=set)
    ready_at: float | None = None
    """Seconds of the epoch at which the engine was known to be ready; None for one that starts before our eyes."""
    count: int = 0
    """Lines since the last `take`, those left out that the agent's own probes cause."""
    total: int = 0
    """All lines so far."""
    last_at: float | None = None
    """Time of the newest line, to go on from after the stream broke."""

    def add(self, line: LogLine) -> None:
        """Take one line. Its meaning is read in the whole of it, since a record in JSON that is cut has none."""
        cut = len(line.text) > LONGEST_LINE
        self.lines.append(LogLine(line.text[:LONGEST_LINE] + " …", line.at) if cut else line)
        self.total += 1
        self.seen.update(words for words in self.wanted if words in line.text)
        self.count += 0 if is_echo(line.text) else 1
        self.last_at = line.at if line.at is not None else self.last_at
        if (event := self.read(line.text)) is not None:
            self.fresh.append(self.as_of_now(line, event))

    def as_of_now(self, line: LogLine, event: LogEvent) -> LogEvent:
        """An adopted engine's log is read from its beginning: compilers of its start are not at work now, and what it
        complained of before it was ready was not its end."""
        old = self.ready_at is not None and line.at is not None and line.at <= self.ready_at
        return replace(event, jit=False, hang=False, failure=None) if old else event

    def unseen(self) -> tuple[str, ...]:
        """What was wanted and has not come."""
        return tuple(words for words in self.wanted if words not in self.seen)

    def take(self) -> tuple[tuple[LogEvent, ...], int]:
        """What the log said since the last call: its events and the number of lines."""
        events, count = tuple(self.fresh), self.count
        self.fresh.clear()
        self.count = 0
        return events, count
