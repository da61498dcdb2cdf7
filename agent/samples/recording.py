"""A recording: JSON Lines, the head first and then one sample a line, oldest first (pure; README.md tells the form)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from agent.engines.model import Command, EngineKind, EngineLaunch
from agent.engines.registry import dialect_of
from agent.errors import InvalidInput
from agent.plan.watch import Watch
from agent.samples.checked import build, mapping, slim
from agent.samples.codec import line_of, sample_of, time_of
from agent.samples.json_line import dumps, loads
from agent.samples.model import Sample, Window


class BadRecording(InvalidInput):
    """A recording with a line that cannot be understood."""

    code = "recording.invalid"
    message = "cannot read line {line} of the recording: {why}"
    hint = "agent/samples/README.md tells the form of a line"


STALLS = ("stall", "stall_blind")


@dataclass(frozen=True, slots=True)
class Head:
    """What a recording says before its first sample. Times are on the clock of `t`."""

    engine: EngineLaunch | None = None
    started: float | None = None
    """When the container was started; before the first sample where an engine was up already."""
    ready: float | None = None
    learned: Mapping[str, float] = field(default_factory=dict)
    watch: Mapping[str, float | None] = field(default_factory=dict)
    """Windows that were set, in seconds by name."""
    own: tuple[str, ...] = ()
    """The data-parallel ranks that were seen to answer to their numbers, in a row; that may be days ago."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A head and samples, oldest first; one generation of one deployment."""

    head: Head
    samples: tuple[Sample, ...]


def read_recording(lines: Iterable[str], engine: EngineLaunch | None = None) -> Recording:
    """The whole recording. `engine` is believed before the head's own. Raises BadRecording."""
    head, samples = open_recording(lines, engine)
    return Recording(head, tuple(samples))


def open_recording(
    lines: Iterable[str], engine: EngineLaunch | None = None, *, same: bool = False
) -> tuple[Head, Iterator[Sample]]:
    """The head, and the samples as they are asked for: at least one, each later than the one before.

    `same`: the head may name no other kind of engine than `engine`.

    Raises BadRecording, here or at the line that cannot be understood. No line is kept, so a recording may be longer
    than the memory.
    """
    reader = Reader(engine, same)
    samples = read_all(reader, lines)
    first = next(samples, None)
    if first is None:
        raise BadRecording(line=1, why="there is no sample in it")
    return reader.head or Head(engine=engine), chain((first,), samples)


def read_all(reader: Reader, lines: Iterable[str]) -> Iterator[Sample]:
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            sample = reader.take(mapping(loads(text), "a line"))
        except InvalidInput as error:
            raise BadRecording(line=number, why=error.text) from error
        except (ValueError, RecursionError) as error:
            raise BadRecording(line=number, why=f"not JSON: {error}") from error
        if sample is not None:
            yield sample


class Reader:
    """Takes line after line: the head, then samples that are each later than the one before."""

    def __init__(self, engine: EngineLaunch | None, same: bool) -> None:
        self._given = engine
        self._same = same
        self._last: Sample | None = None
        self.head: Head | None = None

    def take(self, line: Mapping[str, Any]) -> Sample | None:
        """One line; None for the head. Raises InvalidInput."""
        if "t" not in line:
            if self._last is not None or self.head is not None:
                raise InvalidInput("it has no time `t`; the head, which has none, stands once and first")
            self.head = head_of(line, self._given, same=self._same)
            return None
        engine = self._given or (self.head.engine if self.head else None)
        sample = sample_of(line, dialect_of(engine.kind) if engine else None)
        if self._last is not None and sample.at.mono <= self._last.at.mono:
            raise InvalidInput("its time `t` is not after that of the line before")
        self._last = sample
        return sample


def head_of(line: Mapping[str, Any], engine: EngineLaunch | None, *, same: bool) -> Head:
    """`engine` may be a mere kind: then its own defaults hold."""
    stated = line.get("engine")
    if isinstance(stated, str):
        line = {**line, "engine": {"kind": stated}}
    if isinstance(line.get("engine"), Mapping):
        line = {**line, "engine": launch_of(line["engine"])}
    for key in ("started", "ready"):
        if line.get(key) is not None:
            time_of(line[key], key)
    own = build(Head, line)
    if same and engine is not None and own.engine is not None and own.engine.kind is not engine.kind:
        raise InvalidInput(f"it was taken of {own.engine.kind}, and the plan is one of {engine.kind}")
    return own if engine is None else replace(own, engine=engine)


def launch_of(value: Mapping[str, Any]) -> EngineLaunch:
    """A launch by its kind alone, or with what its flags said."""
    launch = build(EngineLaunch, value)
    return default_launch(launch.kind) if set(value) == {"kind"} else launch


def default_launch(kind: EngineKind) -> EngineLaunch:
    """An engine whose launch says nothing: the engine's own defaults."""
    return dialect_of(kind).describe(Command(()))


def write_recording(window: Window, engine: EngineLaunch | None, watch: Watch | None = None) -> list[str]:
    """A window as lines: its head with the windows that it was judged by, then its samples, oldest first."""
    head = Head(
        engine=engine,
        started=window.started.mono,
        ready=window.ready.mono if window.ready else None,
        learned=window.learned,
        watch=stated(watch) if watch else {},
        own=window.marks.canaries.own if window.marks.canaries.aims else (),
    )
    return [dumps(line) for line in (slim(head), *(line_of(sample) for sample in window.samples))]


def stated(watch: Watch) -> dict[str, float | None]:
    """The windows by name, as a head states them. Where nobody's word is behind those of a stall they are left out: a
    stated one is acted on."""
    seconds = {name: span.seconds for name, span in watch.spans().items()}
    return seconds if watch.derived else {name: value for name, value in seconds.items() if name not in STALLS}
