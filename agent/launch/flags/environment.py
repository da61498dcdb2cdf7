"""Environment, labels, and the files they may be read from (the CLI's env-file format: no quotes, no expansion)."""

from __future__ import annotations

from collections.abc import Callable

from agent.launch.flags.kinds import refuse
from agent.launch.golang import SPACES, Malformed
from agent.launch.model import Context

LONGEST_LINE = 64 * 1024
"""Letters of a line that the CLI reads of a file."""

Lookup = Callable[[str], str | None]


def variable(value: str, context: Context) -> str:
    """`-e NAME=value`; a bare name takes its value from the caller, or goes as it is. Raises Malformed."""
    name, equals, _ = value.partition("=")
    refuse(not name, f"invalid environment variable: {value}")
    if equals or (known := context.lookup(name)) is None:
        return value
    return f"{name}={known}"


def last_wins(values: list[str]) -> list[str]:
    """One entry a name: the last."""
    return list({value.partition("=")[0]: value for value in values}.values())


def label(value: str, _: Context) -> str:
    """`-l name[=value]`. Raises Malformed."""
    name = value.partition("=")[0].lstrip(SPACES)
    refuse(not name, f"invalid label '{value}': empty name")
    refuse(any(blank in name for blank in " \t"), f"label '{name}' contains whitespaces")
    return value


def lines(text: str, lookup: Lookup | None = None) -> list[str]:
    """The entries of an env-file: comments and blank lines go, a bare name is looked up or goes. Raises Malformed."""
    out = []
    for raw in text.removeprefix("\ufeff").split("\n"):
        refuse(len(raw) > LONGEST_LINE, "bufio.Scanner: token too long")
        line = raw.removesuffix("\r").lstrip(SPACES)
        if not line or line.startswith("#"):
            continue
        name, equals, _ = line.partition("=")
        refuse(not name, f"no variable name on line '{line}'")
        refuse(any(blank in name for blank in " \t"), f"variable '{name}' contains whitespaces")
        if equals:
            out.append(line)
        elif lookup is not None and (value := lookup(name)) is not None:
            out.append(f"{name}={value}")
    return out


def from_files(paths: list[str], flag: str, context: Context, lookup: Lookup | None) -> list[str]:
    """The entries of several files, one after another. Raises Malformed, FileUnread."""
    out = []
    for path in paths:
        try:
            out.extend(lines(context.text_of(path, flag), lookup))
        except Malformed as error:
            raise Malformed(f"invalid env file ({path}): {error}") from error
    return out
