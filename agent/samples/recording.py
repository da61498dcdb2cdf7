"""A recording: JSON Lines, the head first and then one sample a line, oldest first (pure; README.md tells the form)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.engines.model import Command, EngineKind, EngineLaunch
from agent.engines.registry import dialect_of
from agent.errors import InvalidInput
from agent.plan.watch import Watch
from agent.samples.checked import build, mapping, slim
from agent.samples.codec import line_of, sample_of
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


@dataclass(frozen=True, slots=True)
class Recording:
    """A head and samples, oldest first; one generation of one deployment."""

    head: Head
    samples: tuple[Sample, ...]


def read_recording(lines: Iterable[str], engine: EngineLaunch | None = None) -> Recording:
    """The recording. `engine` is believed before the head's own. Raises BadRecording."""
    reader = Reader(engine)
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            reader.take(mapping(json.loads(text), "a line"))
        except InvalidInput as error:
            raise BadRecording(line=number, why=error.text) from error
        except (ValueError, RecursionError) as error:
            raise BadRecording(line=number, why=f"not JSON: {error}") from error
    if not reader.samples:
        raise BadRecording(line=1, why="there is no sample in it")
    return Recording(reader.head or Head(engine=engine), tuple(reader.samples))


class Reader:
    """Takes line after line: the head, then samples that are each later than the one before."""

    def __init__(self, engine: EngineLaunch | None) -> None:
        self._given = engine
        self.head: Head | None = None
        self.samples: list[Sample] = []

    def take(self, line: Mapping[str, Any]) -> None:
        """One line. Raises InvalidInput."""
        if "t" not in line:
            if self.samples or self.head is not None:
                raise InvalidInput("it has no time `t`; the head, which has none, stands once and first")
            self.head = head_of(line, self._given)
            return
        engine = self._given or (self.head.engine if self.head else None)
        sample = sample_of(line, dialect_of(engine.kind) if engine else None)
        if self.samples and sample.at.mono <= self.samples[-1].at.mono:
            raise InvalidInput("its time `t` is not after that of the line before")
        self.samples.append(sample)


def head_of(line: Mapping[str, Any], engine: EngineLaunch | None) -> Head:
    """`engine` may be a mere kind: then its own defaults hold."""
    stated = line.get("engine")
    if isinstance(stated, str):
        line = {**line, "engine": {"kind": stated}}
    if isinstance(line.get("engine"), Mapping):
        line = {**line, "engine": launch_of(line["engine"])}
    return build(Head, line if engine is None else {**line, "engine": engine})


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
    )
    return [json.dumps(line) for line in (slim(head), *(line_of(sample) for sample in window.samples))]


def stated(watch: Watch) -> dict[str, float | None]:
    """The windows by name, as a head states them. Where nobody's word is behind those of a stall they are left out: a
    stated one is acted on."""
    seconds = {name: span.seconds for name, span in watch.spans().items()}
    return seconds if watch.derived else {name: value for name, value in seconds.items() if name not in STALLS}
