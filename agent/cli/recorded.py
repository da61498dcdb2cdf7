"""What `agentctl replay` reads: a recording line by line, however long it is, and the plan beside it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from agent.errors import InvalidInput
from agent.plan.model import Plan
from agent.plan.tojson import plan_from_json

LONGEST_LINE = 16 << 20
"""Letters of a line: twice what is taken of an engine's answer, since JSON writes a letter with up to two."""
LARGEST_PLAN = 16 << 20
ARCHIVE = "an incident's archive holds one: tar -xzf FILE, then agentctl replay ID/window.jsonl"


@contextmanager
def opened(name: str) -> Iterator[TextIO]:
    """The file, or standard input. Raises InvalidInput for what cannot be read, here and while it is read."""
    try:
        if name == "-":
            if isinstance(sys.stdin, io.TextIOWrapper):
                sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict")
            yield sys.stdin
        else:
            with Path(name).open(encoding="utf-8-sig") as stream:
                yield stream
    except OSError as error:
        raise InvalidInput(what=name, why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(what=name, why="it is not UTF-8 text", advice=ARCHIVE) from error
    except ValueError as error:
        if "null byte" not in str(error):
            raise
        raise InvalidInput(what=repr(name), why="that is no name of a file") from error


def lines_of(stream: TextIO, name: str) -> Iterator[str]:
    """Line by line, none of them longer than a look at an engine can be."""
    number = 0
    while text := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(text) > LONGEST_LINE:
            why = f"line {number} is longer than {LONGEST_LINE >> 20} MiB, which no look at an engine is"
            raise InvalidInput(what=name, why=why)
        yield text


def plan_of(name: str) -> Plan:
    """A plan as `agentctl plan -o json` prints it. Raises InvalidInput."""
    with opened(name) as stream:
        text = stream.read(LARGEST_PLAN + 1)
    if len(text) > LARGEST_PLAN:
        raise InvalidInput(what=name, why=f"it is longer than {LARGEST_PLAN >> 20} MiB, which no plan is")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(what=name, why=f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidInput(what=name, why="a plan is a JSON object, as agentctl plan -o json prints it")
    return plan_from_json(value)
