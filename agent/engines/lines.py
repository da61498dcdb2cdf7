"""Log lines: what every engine's lines share, and tables of patterns that give them meaning."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.engines.model import FailureClass, LogEvent, Phase
from agent.engines.said import own_until, spoken, survived

LONGEST = 4096
LONGEST_RECORD = 1 << 16
"""Of one in JSON, which means nothing when it is cut."""
SHOWN = 300

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_BREAK = re.compile(r"[\r\n]+")
# Lines that the agent's own probes cause, requests that are turned away because it still starts, and lines that only
# say "still waiting": they prove nothing in a start-up.
_ECHO = re.compile(
    r'"(?:GET|HEAD) /(?:health\S*|v1/health|metrics\S*|ping|ready|v1/models|slots|props|load|version|v1/loads\S*'
    r"|is_sleeping|is_paused|prometheus/metrics) HTTP/"
    r"|log_server_r: (?:done )?request: GET /(?:health|metrics|slots|v1/models)"
    r'|"[A-Z]+ /\S* HTTP/[\d.]+" 503\b|log_server_r: done request: [A-Z]+ /\S* \S+ 503$'
    r"|Waiting for \d+ (?:local|remote).* core engine proc|No available shared memory broadcast block"
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a line that matches `pattern` says.

    A group named `percent` (0..100), or groups `done` and `total`, give the phase's ratio.
    """

    pattern: re.Pattern[str]
    phase: Phase | None = None
    failure: FailureClass | None = None
    jit: bool = False
    hang: bool = False
    progress: bool = False
    draining: bool = False
    paused: bool | None = None
    detached: bool = False


def starts(phase: Phase, pattern: str, *, jit: bool = False) -> Meaning:
    """A row for a step of the start-up."""
    return Meaning(re.compile(pattern), phase=phase, jit=jit)


def fails(failure: FailureClass, pattern: str, *, hang: bool = False) -> Meaning:
    """A row for a class of fault."""
    return Meaning(re.compile(pattern), failure=failure, hang=hang)


def moves(pattern: str) -> Meaning:
    """A row for lines that only a turning scheduler writes."""
    return Meaning(re.compile(pattern), progress=True)


def compiles(pattern: str) -> Meaning:
    """A row for compilers at work."""
    return Meaning(re.compile(pattern), jit=True)


def hangs(pattern: str) -> Meaning:
    """A row for lines that a waiting engine writes, and a hung one most of all."""
    return Meaning(re.compile(pattern), hang=True)


def read(line: str, table: Sequence[Meaning]) -> LogEvent | None:
    """The meaning of one line: of the last of its parts that has one (progress bars write carriage returns)."""
    for part in reversed(_BREAK.split(line[: LONGEST_RECORD if line.startswith("{") else LONGEST])):
        text = _ANSI.sub("", part).strip()
        if text and (event := first_of(text, table)) is not None:
            return event
    return None


def first_of(text: str, table: Sequence[Meaning]) -> LogEvent | None:
    """The first meaning in a line: a record in JSON may hold a whole traceback."""
    return next((event for words in spoken(text) if (event := mean(words, table)) is not None), None)


def mean(text: str, table: Sequence[Meaning]) -> LogEvent | None:
    """The first row that matches in the engine's own words; a failure that it survived is none."""
    begins, ended = own_until(text)
    calm = survived(text)
    for row in table:
        if row.failure is not None and calm:
            continue
        match = row.pattern.search(text)
        if match is not None and match.start() <= begins and match.end() <= ended:
            return event_of(text[:SHOWN], row, match)
    return None


def event_of(text: str, row: Meaning, match: re.Match[str]) -> LogEvent:
    return LogEvent(
        text=text,
        phase=row.phase,
        ratio=ratio_of(match),
        failure=row.failure,
        jit=row.jit,
        hang=row.hang,
        progress=row.progress,
        draining=row.draining,
        paused=row.paused,
        detached=row.detached,
    )


def ratio_of(match: re.Match[str]) -> float | None:
    groups = match.groupdict()
    if groups.get("percent"):
        return min(1.0, float(groups["percent"]) / 100.0)
    if groups.get("done") and groups.get("total"):
        total = float(groups["total"])
        return min(1.0, float(groups["done"]) / total) if total else None
    return None


def ends(pattern: str) -> Meaning:
    """A row for an engine that was told to end and says so."""
    return Meaning(re.compile(pattern), draining=True)


def pauses(pattern: str, *, paused: bool) -> Meaning:
    """A row for an engine that was told to stand still, or to go on."""
    return Meaning(re.compile(pattern), paused=paused)


def detaches(pattern: str) -> Meaning:
    """A row for the answer to a request that may run on with no client connected."""
    return Meaning(re.compile(pattern), detached=True)


def is_echo(line: str) -> bool:
    """A line that the agent's own probes caused, or that only says "still waiting": no sign of life."""
    return _ECHO.search(line[:LONGEST]) is not None
