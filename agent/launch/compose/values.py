"""Values of a compose file as text: numbers, switches, lists, maps, durations, command lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent.launch.refusal import BadCompose, ShellConstruct
from agent.launch.scanner import Scanner
from agent.launch.words import Literal

_DURATION = re.compile(r"(?:([0-9]+(?:\.[0-9]+)?)(us|ms|s|m|h|d|w))+")


def text(value: Any, where: str = "a value") -> str:
    """A scalar as compose writes it. Raises BadCompose for a list or a map."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, str | int | float):
        return str(value)
    raise BadCompose(where=where, why="a single value is expected", how="write it as text")


def texts(value: Any) -> list[str]:
    """A list of scalars, or one scalar alone; whatever else is in it is left out."""
    items = value if isinstance(value, list) else [] if value is None else [value]
    return [text(item) for item in items if isinstance(item, str | int | float)]


def items(value: Any, where: str) -> list[Any]:
    """A list, or one value alone. Raises BadCompose for a map."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        raise BadCompose(where=where, why="a list is expected", how="write one item a line, each after a dash")
    return value if isinstance(value, list) else [value]


def pairs(value: Any, where: str) -> dict[str, str | None]:
    """A map, or a list of `NAME=VALUE`; None where a name has no value. Raises BadCompose."""
    if isinstance(value, Mapping):
        return {str(name): None if item is None else text(item, where) for name, item in value.items()}
    out: dict[str, str | None] = {}
    for item in items(value, where):
        name, equals, content = text(item, where).partition("=")
        out[name] = content if equals else None
    return out


def words(value: Any) -> list[str] | None:
    """A command: a list as it is, a text split as a shell would, nothing expanded; None where nothing stands."""
    if value is None:
        return None
    if isinstance(value, list):
        return [text(item) for item in value]
    return _split(text(value))


def _split(line: str) -> list[str]:
    scanner = Scanner(line.replace("$", "\0").replace("`", "\1"), plain=True)
    out: list[str] = []
    while (token := scanner.token()) is not None:
        if token.word is None:
            raise ShellConstruct(word=token.text, why="a compose command is no shell line")
        joined = "".join(part.text for part in token.word if isinstance(part, Literal))
        out.append(joined.replace("\0", "$").replace("\1", "`"))
    return out


def duration(value: Any, where: str) -> str:
    """A duration as Go's `time.ParseDuration` takes it: days and weeks as hours. Raises BadCompose."""
    given = text(value, where)
    if not _DURATION.fullmatch(given):
        raise BadCompose(where=where, why=f"{given!r} is no duration", how="write it like 1m30s")
    hours = {"d": 24, "w": 168}
    pieces = [(amount, unit) for amount, unit in re.findall(r"([0-9.]+)(us|ms|s|m|h|d|w)", given)]
    return "".join(
        f"{float(amount) * hours[unit]:g}h" if unit in hours else f"{amount}{unit}" for amount, unit in pieces
    )
