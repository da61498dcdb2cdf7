"""Findings for people (one screen, the worst first) and for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agent.errors import plain
from agent.preflight.model import Finding, Level, passed

ORDER = (Level.FAIL, Level.UNKNOWN, Level.WARN, Level.PASS)
COLOURS = {Level.FAIL: "31", Level.UNKNOWN: "35", Level.WARN: "33", Level.PASS: "32"}
LEVEL_WIDTH = max(len(level.value) for level in Level)


def as_json(findings: Sequence[Finding], accepted: frozenset[str] = frozenset()) -> dict[str, Any]:
    """What `preflight -o json` prints."""
    return {
        "ok": passed(tuple(findings), accepted),
        "findings": [plain(finding.to_json()) | accepting(finding, accepted) for finding in findings],
    }


def accepting(finding: Finding, accepted: frozenset[str]) -> dict[str, Any]:
    return {"accepted": True} if finding.refuses and finding.check in accepted else {}


def as_text(
    findings: Sequence[Finding], accepted: frozenset[str] = frozenset(), colour: bool = False, last: str = ""
) -> str:
    """Failures first with need, origin and cure; what passed in one line; `last`, or whether it may be deployed."""
    telling = [finding for finding in findings if finding.level not in (Level.UNKNOWN, Level.PASS)]
    width = max((len(finding.check) for finding in telling), default=0)
    lines: list[str] = []
    for level in ORDER:
        if level is Level.UNKNOWN:
            lines += unknowns([one for one in findings if one.level is level], accepted, colour)
        for finding in (one for one in telling if one.level is level):
            lines += block(finding, width, finding.check in accepted, colour)
    if good := [finding.check for finding in findings if finding.level is Level.PASS]:
        lines.append(f"{paint(Level.PASS, colour)}  {', '.join(good)}")
    return "\n".join([*lines, last or verdict(findings, accepted)])


def unknowns(findings: Sequence[Finding], accepted: frozenset[str], colour: bool) -> Iterator[str]:
    """What could not be looked at, once for each reason: many checks need the same source."""
    reasons = dict.fromkeys(finding.found for finding in findings)
    for reason in reasons:
        same = [finding for finding in findings if finding.found == reason]
        names = [f"{one.check} (accepted)" if one.check in accepted and one.refuses else one.check for one in same]
        yield f"{paint(Level.UNKNOWN, colour)}  {', '.join(names)}: {reason}"
        for hint in dict.fromkeys(one.hint for one in same if one.hint):
            yield f"{' ' * (LEVEL_WIDTH + 2)}to do:  {hint}"


def block(finding: Finding, width: int, accepted: bool, colour: bool) -> Iterator[str]:
    """One finding that wants reading."""
    note = "  (accepted)" if accepted and finding.refuses else ""
    yield f"{paint(finding.level, colour)}  {finding.check:<{width}}  {finding.found}{note}"
    indent = " " * (LEVEL_WIDTH + 2 + width + 2)
    if finding.need:
        yield f"{indent}needed: {finding.need}"
    if finding.origin:
        yield f"{indent}stated: {finding.origin}"
    if finding.hint:
        yield f"{indent}to do:  {finding.hint}"


def paint(level: Level, colour: bool) -> str:
    word = f"{level.value:<{LEVEL_WIDTH}}"
    return f"\x1b[{COLOURS[level]}m{word}\x1b[0m" if colour else word


def verdict(findings: Sequence[Finding], accepted: frozenset[str]) -> str:
    """One sentence at the end."""
    refusing = [finding.check for finding in findings if finding.refuses and finding.check not in accepted]
    if not refusing:
        overruled = [finding.check for finding in findings if finding.refuses]
        return "it can be deployed" + (f", with {', '.join(overruled)} accepted" if overruled else "")
    return f"it cannot be deployed: {len(refusing)} of {len(findings)} checks refuse ({', '.join(refusing)})"
