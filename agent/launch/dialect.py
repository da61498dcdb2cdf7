"""Launches written for Windows' cmd or PowerShell: their own continuation, variables and quotes, into plain words."""

from __future__ import annotations

import re

from agent.launch.expand import Expander
from agent.launch.refusal import ShellConstruct
from agent.launch.substitute import substitution

_CMD_CONTINUED = re.compile(r"\^[ \t]*\r?\n")
_CMD_VARIABLE = re.compile(r"%([A-Za-z_][A-Za-z0-9_]*)%")
_PS_CONTINUED = re.compile(r"[ \t]`[ \t]*\r?\n")
_PS_VARIABLE = re.compile(
    r"\$(?:\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}|(?:env:)?([A-Za-z_][A-Za-z0-9_]*)|\(([^()]*)\))", re.IGNORECASE
)


def dialect_of(text: str) -> str:
    """`cmd`, `powershell` or `posix`, by how lines are continued and variables written."""
    if _CMD_CONTINUED.search(text) or (_CMD_VARIABLE.search(text) and "$" not in text and "\\\n" not in text):
        return "cmd"
    marks = len(_PS_CONTINUED.findall(text))
    if marks and text.count("`") == marks + text.rstrip().endswith("`"):
        return "powershell"
    return "posix"


def windows_lines(text: str, dialect: str, expander: Expander) -> list[tuple[str, list[str]]]:
    """Each command with its words. What has no value is left with `expander`. Raises ShellConstruct."""
    joined = _CMD_CONTINUED.sub("", text) if dialect == "cmd" else _PS_CONTINUED.sub(" ", text)
    lines = joined.split("\n")
    out = []
    for line in lines:
        stripped = line.strip().rstrip("^`" if line is lines[-1] else "").strip()
        if stripped and not stripped.lower().startswith(("rem ", "::", "#")):
            out.append((stripped, _words(stripped, dialect, expander)))
    return out


def _words(line: str, dialect: str, expander: Expander) -> list[str]:
    words: list[str] = []
    current: list[str] | None = None
    quote = ""
    at = 0
    while at < len(line):
        char = line[at]
        if char == quote:
            quote = ""
        elif not quote and (char == '"' or (char == "'" and dialect == "powershell")):
            quote, current = char, current or []
        elif char == "\\" and line[at + 1 : at + 2] == '"' and dialect == "cmd":
            current = [*(current or []), '"']
            at += 1
        elif char in " \t" and not quote:
            words.extend(["".join(current)] if current is not None else [])
            current = None
        else:
            text, at = _piece(line, at, quote, dialect, expander)
            current = current or []
            current.append(text)
        at += 1
    if quote:
        raise ShellConstruct(word=line[:60], why=f"the quote {quote} is never closed")
    return words + (["".join(current)] if current is not None else [])


def _piece(line: str, at: int, quote: str, dialect: str, expander: Expander) -> tuple[str, int]:
    """One letter, or a variable's value; with the index of its last letter."""
    pattern = _CMD_VARIABLE if dialect == "cmd" else _PS_VARIABLE
    if line[at] in "%$" and quote != "'" and (found := pattern.match(line, at)):
        return _value(found, expander), found.end() - 1
    if not quote and line[at] in "|&<>;`":
        raise ShellConstruct(word=line[at : at + 20], why="an operator of the Windows shell")
    return line[at], at


def _value(found: re.Match[str], expander: Expander) -> str:
    names = [group for group in found.groups()[:2] if group]
    if not names:
        known = substitution(found[3].strip(), expander.context)
        if known is None:
            expander.unknown_commands.append(found[3].strip())
        return known or ""
    value = expander.lookup(names[0])
    if value is None and names[0].upper() == "CD":
        value = expander.context.cwd
    if value is None:
        expander.missing.append(names[0])
    return value or ""
