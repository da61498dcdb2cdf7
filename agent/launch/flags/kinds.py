"""What a flag is: its name, its letter, and how one value of it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.launch import golang
from agent.launch.golang import Malformed
from agent.launch.model import Context

Reader = Callable[[str, Context], Any]
"""Reads one value as the CLI does when it meets the flag. Raises Malformed."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `many` collects values, `switch` needs none, `on` names the verbs that have it."""

    name: str
    read: Reader
    short: str = ""
    many: bool = False
    switch: bool = False
    default: Any = None
    on: tuple[str, ...] = ("run", "create")
    same_as: str = ""
    windows: bool = False

    @property
    def key(self) -> str:
        """The name that values are kept under: aliases share one."""
        return self.same_as or self.name

    @property
    def label(self) -> str:
        """As the CLI's own messages call it."""
        return f"-{self.short}, --{self.name}" if self.short else f"--{self.name}"


@dataclass(slots=True)
class Given:
    """The flags of one command line, read: values by name, and which were given at all."""

    values: dict[str, Any]
    changed: set[str] = field(default_factory=set)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def text(self, name: str) -> str:
        """A string flag's value."""
        return str(self.values[name])

    def list(self, name: str) -> list[Any]:
        """A repeatable flag's values, in order."""
        return list(self.values[name])

    def number(self, name: str) -> int:
        """A number's value."""
        return int(self.values[name])

    def on(self, name: str) -> bool:
        """A switch."""
        return bool(self.values[name])


def text(value: str, _: Context) -> str:
    """Any text."""
    return value


def switch(value: str, _: Context) -> bool:
    """A switch's value, Go's words for true and false."""
    return golang.switch(value)


def integer(value: str, _: Context) -> int:
    """A whole number of 64 bits, in Go's notation."""
    return golang.integer(value)


def size(value: str, _: Context) -> int:
    """Bytes: `16g`, `10.24gb`, `512MiB`."""
    return golang.ram(value)


def duration(value: str, _: Context) -> int:
    """Nanoseconds: `30s`, `1m30s`."""
    return golang.duration(value)


def pairs(values: Sequence[str]) -> dict[str, str]:
    """`a=b` each, the last of a name wins; a bare name has an empty value."""
    out: dict[str, str] = {}
    for value in values:
        name, _, content = value.partition("=")
        out[name] = content
    return out


def refuse(condition: bool, why: str) -> None:
    """Raise Malformed where `condition` holds."""
    if condition:
        raise Malformed(why)
