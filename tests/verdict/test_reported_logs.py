"""The cause in the logs of public reports, and none in what healthy engines and their clients write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.engines.model import EngineKind, FailureClass, LogEvent
from agent.engines.registry import dialect_of
from agent.verdict.failure import root_cause

LOGS = Path(__file__).with_name("reported_logs")


def sections(name: str) -> Iterator[tuple[str, list[str]]]:
    """Headings with their lines."""
    lines = [line for line in (LOGS / name).read_text().splitlines() if line and not line.startswith("# ")]
    heads = [index for index, line in enumerate(lines) if line.startswith("== ")]
    for begin, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        yield lines[begin][3:], [line.replace("\\e", "\x1b") for line in lines[begin + 1 : end]]


def meanings(engine: str, lines: list[str]) -> list[LogEvent]:
    read = dialect_of(EngineKind(engine)).read_log
    return [event for line in lines if (event := read(line)) is not None]


ENDS = [(*head.split(" : ")[0].split(), head.split(" : ")[1], lines) for head, lines in sections("ends.txt")]
HEALTHY = [(engine, line) for engine, lines in sections("healthy.txt") for line in lines]
SPOKEN = [(engine, form) for engine, lines in sections("spoken.txt") for form in lines]


@pytest.mark.parametrize(("engine", "failure", "report", "lines"), ENDS, ids=[end[2] for end in ENDS])
def test_the_first_cause_is_found_in_a_pile_of_tracebacks(engine, failure, report, lines):
    found = root_cause([event for event in meanings(engine, lines) if event.failure is not None])
    assert (found.failure if found else None) == FailureClass(failure)


@pytest.mark.parametrize(("engine", "line"), HEALTHY)
def test_what_a_healthy_engine_writes_is_no_failure(engine, line):
    assert not any(event.failure for event in meanings(engine, [line]))


@pytest.mark.parametrize(("engine", "form"), SPOKEN)
def test_what_a_client_sends_means_nothing(engine, form):
    """Every line of every report, said by a client in every place where a log repeats what clients say."""
    words = sorted({line for *_, lines in ENDS for line in lines})
    assert meanings(engine, [form.replace("{}", said) for said in words]) == []
