"""What commands within a launch print, where somebody said so; nothing is ever run to find out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from agent.launch.model import Context

_MAKE = re.compile(r"\$\(([A-Z][A-Z0-9_]+)\)")


def substitution(command: str, context: Context) -> str | None:
    """What a command prints, where the context says so; trailing newlines go, as in a shell. `pwd` is the cwd."""
    known: Mapping[str, str] = context.substitutions
    value = known.get(command)
    if value is None:
        folded = {" ".join(key.split()): text for key, text in known.items()}
        value = folded.get(" ".join(command.split()))
    if value is None and command in ("pwd", "pwd -P", "pwd -L"):
        value = context.lookup("PWD") if context.cwd is None else context.cwd
    return None if value is None else value.rstrip("\n")


def make_variables(words: Sequence[str]) -> list[str]:
    """Names in `$(NAME)` that are left after expansion: all capitals, as no program is called, so `make` fills them."""
    return unique([name for word in words for name in _MAKE.findall(word)])


def unique(names: Iterable[str]) -> list[str]:
    """Each name once, in order."""
    return list(dict.fromkeys(names))
