"""Security options, capabilities, and the namespaces that only take certain words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from agent.launch.flags.kinds import refuse
from agent.launch.golang import Malformed
from agent.launch.model import Context

_STRING_OR_BLANKS = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\r\n]+')


def options(values: list[str], context: Context) -> tuple[list[str] | None, bool]:
    """`SecurityOpt`, and whether the system paths are left open. A seccomp profile's text replaces its path."""
    out = [_option(value, context) for value in values]
    opened = "systempaths=unconfined" in out
    kept = [value for value in out if value != "systempaths=unconfined"]
    return (kept if values else None), opened


def _option(value: str, context: Context) -> str:
    name, sign, content = value.partition("=")
    if not sign and name != "no-new-privileges":
        name, sign, content = value.partition(":")
    refuse(name != "no-new-privileges" and (not sign or not content), f'Invalid --security-opt: "{value}"')
    if name == "seccomp" and content not in ("unconfined", "builtin"):
        return f"seccomp={_compact(content, context.text_of(content, '--security-opt seccomp'))}"
    return value


def _compact(path: str, text: str) -> str:
    """JSON without the blanks between its words; the words as they were."""
    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"compacting json for seccomp profile ({path}) failed: {error}") from error
    return _STRING_OR_BLANKS.sub(lambda found: found[1] or "", text)


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def capabilities(values: list[str]) -> list[str] | None:
    """Capital, with `CAP_`, each once, sorted; `ALL` stays as it is."""
    names = set()
    for value in values:
        name = value.upper()
        names.add(name if name == "ALL" or name.startswith("CAP_") else f"CAP_{name}")
    return sorted(names) or None


def namespace(flag: str, word: str, *allowed: str, containers: bool = False) -> Callable[[str], str]:
    """A check for a namespace flag that takes a few words, and `container:NAME` where `containers`."""

    def check(value: str) -> str:
        named = containers and value.startswith("container:") and value != "container:"
        refuse(value not in ("", *allowed) and not named, f"--{flag}: invalid {word} mode")
        return value

    return check


pid = namespace("pid", "PID", "host", containers=True)
uts = namespace("uts", "UTS", "host")
userns = namespace("userns", "USER", "host")
cgroupns = namespace("cgroupns", "CGROUP", "host", "private")


def masked(opened: bool) -> dict[str, Any]:
    """`MaskedPaths` and `ReadonlyPaths`: empty lists where `systempaths=unconfined` was asked."""
    return {"MaskedPaths": [] if opened else None, "ReadonlyPaths": [] if opened else None}
