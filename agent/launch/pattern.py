"""Shell patterns (`*`, `?`, `[…]`) as they stand in `${NAME%pattern}` and `${NAME/pattern/text}`."""

from __future__ import annotations

import re

from agent.launch.refusal import ShellConstruct

MOST_STARS = 4
LONGEST = 500
"""Bounds of a pattern: stars in it, since each one multiplies the work, and letters."""


def matcher(pattern: str) -> str:
    """The pattern as a regular expression; `\\x` is the letter x."""
    if pattern.count("*") > MOST_STARS or len(pattern) > LONGEST:
        raise ShellConstruct(word=pattern[:40], why="this pattern is no launch's")
    out, at = [], 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            out.append(".*")
        elif char == "?":
            out.append(".")
        elif char == "\\" and at < len(pattern):
            out.append(re.escape(pattern[at]))
            at += 1
        elif char == "[" and (found := re.compile(r"([!^]?)(\]?[^\]\\]*)\]").match(pattern, at)):
            at = found.end()
            out.append("[" + ("^" if found[1] else "") + found[2].replace("[", r"\[") + "]")
        else:
            out.append(re.escape(char))
    return "".join(out)


def trimmed(value: str, operator: str, expression: str) -> str:
    """`value` without the shortest (`#`, `%`) or longest (`##`, `%%`) match at its start or end."""
    compiled = re.compile(expression, re.DOTALL)
    longest = len(operator) == 2
    cuts = range(len(value) + 1)
    if operator[0] == "#":
        ends = reversed(cuts) if longest else cuts
        return next((value[end:] for end in ends if compiled.fullmatch(value, 0, end)), value)
    starts = cuts if longest else reversed(cuts)
    return next((value[:start] for start in starts if compiled.fullmatch(value, start)), value)


def replaced(value: str, operand: str, every: bool) -> str:
    """`${NAME/pattern/text}`: the longest match from the left, once or `every` time."""
    pattern, text = _halves(operand)
    if not pattern:
        return value
    anchored = {"#": r"\A", "%": ""}.get(pattern[0], "") if not every else ""
    body = matcher(pattern[1:] if pattern[0] in "#%" and not every else pattern)
    ending = r"\Z" if pattern[0] == "%" and not every else ""
    compiled = re.compile(f"{anchored}(?:{body}){ending}", re.DOTALL)
    return compiled.sub(lambda _: text, value, count=0 if every else 1)


def _halves(operand: str) -> tuple[str, str]:
    at = 1 if operand.startswith("/") else 0
    while (at := operand.find("/", at)) >= 0:
        if at == 0 or operand[at - 1] != "\\":
            return operand[:at], re.sub(r"\\(.)", r"\1", operand[at + 1 :])
        at += 1
    return operand, ""


def sliced(value: str, operand: str, source: str) -> str:
    """`${NAME:offset:length}`. Raises ShellConstruct."""
    found = re.fullmatch(r"\s*(\s-[0-9]{1,9}|[0-9]{1,9})\s*(?::\s*(-?[0-9]{1,9})\s*)?", operand)
    if not found:
        raise ShellConstruct(word=source, why="the offset is no number")
    start = int(found[1])
    start = max(len(value) + start, 0) if start < 0 else start
    if found[2] is None:
        return value[start:]
    length = int(found[2])
    return value[start : start + length] if length >= 0 else value[start:length]


def cased(value: str, operator: str) -> str:
    """`${NAME^}`, `${NAME^^}`, `${NAME,}`, `${NAME,,}`."""
    change = str.upper if operator[0] == "^" else str.lower
    return change(value) if len(operator) == 2 else change(value[:1]) + value[1:]
