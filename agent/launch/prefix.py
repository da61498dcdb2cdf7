"""What stands before a command: assignments, `sudo`, `nohup`, `time`, `env`, `exec`, locks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.launch.model import LaunchWarning

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=(.*)", re.DOTALL)
_PLAIN = ("exec", "time", "nohup", "command", "builtin", "setsid", "stdbuf", "ionice", "unbuffer")
_SUDO_VALUES = ("-u", "-g", "-h", "-p", "-C", "-T", "-r", "-t", "--user", "--group")


@dataclass(slots=True)
class Prefix:
    """A command without its wrappers, the assignments before it, and the wrappers."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    wrapper: tuple[str, ...] = ()


def stripped(words: Sequence[str]) -> Prefix:
    """Take wrappers and assignments off `words`."""
    env: dict[str, str] = {}
    at = 0
    first = 0
    wrapper: list[str] = []
    while at < len(words):
        first = at
        at = _past_one(words, at, env)
        if at == first:
            break
        wrapper.extend(word for word in words[first:at] if not _ASSIGNMENT.fullmatch(word))
    return Prefix(tuple(words[at:]), env, tuple(wrapper))


def _past_one(words: Sequence[str], at: int, env: dict[str, str]) -> int:
    """The index after one wrapper or assignment at `at`; `at` itself where there is none."""
    word = words[at]
    if (found := _ASSIGNMENT.fullmatch(word)) and not found[2]:
        env[found[1]] = found[3]
        return at + 1
    name = word.rpartition("/")[2]
    if name == "env":
        # With options it changes the directory or takes variables away, and then it is a program of its own.
        return at if words[at + 1 : at + 2] and words[at + 1].startswith("-") else at + 1
    if name in ("sudo", "doas"):
        return _past_options(words, at + 1, _SUDO_VALUES)
    if name in ("nice", "ionice", "chrt", "taskset", "numactl", "timeout", "stdbuf", "flock"):
        return _past_tool(words, at, name)
    return at + 1 if name in _PLAIN else at


def _past_options(words: Sequence[str], at: int, with_value: Sequence[str]) -> int:
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if words[at] == "--":
            return at + 1
        at += 2 if words[at] in with_value else 1
    return at


_OPERANDS = {"chrt": 1, "taskset": 1, "timeout": 1, "flock": 1}
_TOOL_VALUES = {
    "nice": ("-n", "--adjustment"),
    "ionice": ("-c", "-n", "--class", "--classdata"),
    "numactl": ("-N", "-m", "-C", "-i", "-p"),
    "timeout": ("-k", "-s", "--kill-after", "--signal"),
    "stdbuf": ("-i", "-o", "-e"),
    "flock": ("-w", "-E", "--timeout", "--wait"),
}


def _past_tool(words: Sequence[str], at: int, name: str) -> int:
    """A tool with options and, for some, an operand before the command."""
    after = _past_options(words, at + 1, _TOOL_VALUES.get(name, ()))
    return min(after + _OPERANDS.get(name, 0), len(words))


_FELT = frozenset({"nice", "ionice", "chrt", "taskset", "numactl", "timeout", "stdbuf", "flock"})


def warnings(prefix: Prefix) -> list[LaunchWarning]:
    """Wrappers that the program would have felt, and that are set aside all the same."""
    felt = [word for word in prefix.wrapper if word.rpartition("/")[2] in _FELT]
    if not felt:
        return []
    said = f"{' '.join(prefix.wrapper)} stands before the command, and is set aside"
    return [LaunchWarning("command.wrapper", said)]
