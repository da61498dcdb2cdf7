"""Findings for people (one screen, the worst first) and for machines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from agent.errors import plain
from agent.preflight.model import Finding, Level, passed
from agent.quantity import counted

ORDER = (Level.FAIL, Level.UNKNOWN, Level.WARN, Level.PASS)
COLOURS = {Level.FAIL: "31", Level.UNKNOWN: "35", Level.WARN: "33", Level.PASS: "32"}
LEVEL_WIDTH = max(len(level.value) for level in Level)
LEAST = 30
"""Characters that a wrapped text has at least; a narrower terminal breaks it as it likes."""


def as_json(findings: Sequence[Finding], accepted: frozenset[str] = frozenset()) -> dict[str, Any]:
    """What `preflight -o json` prints."""
    return {
        "ok": passed(tuple(findings), accepted),
        "findings": [plain(finding.to_json()) | accepting(finding, accepted) for finding in findings],
    }


def accepting(finding: Finding, accepted: frozenset[str]) -> dict[str, Any]:
    return {"accepted": True} if finding.refuses and finding.check in accepted else {}


def as_text(
    findings: Sequence[Finding],
    accepted: frozenset[str] = frozenset(),
    colour: bool = False,
    last: str = "",
    columns: int | None = None,
) -> str:
    """Failures first with need, origin and cure; what passed in one line; `last`, or whether it may be deployed.

    Wrapped to `columns`, and with None not at all: whoever searches the text wants whole sentences.
    """
    telling = [finding for finding in findings if finding.level not in (Level.UNKNOWN, Level.PASS)]
    width = max((len(finding.check) for finding in telling), default=0)
    lines: list[str] = []
    for level in ORDER:
        if level is Level.UNKNOWN:
            lines += unknowns([one for one in findings if one.level is level], accepted, colour, columns)
        for finding in (one for one in telling if one.level is level):
            lines += block(finding, (width, columns), finding.check in accepted, colour)
    if good := [finding.check for finding in findings if finding.level is Level.PASS]:
        lines += row(f"{paint(Level.PASS, colour)}  ", ", ".join(good), LEVEL_WIDTH + 2, columns)
    return "\n".join([*lines, *row("", last or verdict(findings, accepted), 0, columns)])


def row(lead: str, text: str, indent: int, columns: int | None) -> Iterator[str]:
    """`lead` and the text after it; its further lines start under the first, at `indent`."""
    if columns is None or columns - indent < LEAST:
        yield lead + text
        return
    wrapped = textwrap.wrap(text, columns - indent, break_long_words=False, break_on_hyphens=False)
    for at, line in enumerate(wrapped or [""]):
        yield (lead if at == 0 else " " * indent) + line


def unknowns(findings: Sequence[Finding], accepted: frozenset[str], colour: bool, columns: int | None) -> Iterator[str]:
    """What could not be looked at, once for each reason: many checks need the same source."""
    reasons = dict.fromkeys(finding.found for finding in findings)
    for reason in reasons:
        same = [finding for finding in findings if finding.found == reason]
        names = [f"{one.check} (accepted)" if one.check in accepted and one.refuses else one.check for one in same]
        indent = LEVEL_WIDTH + 2
        yield from row(f"{paint(Level.UNKNOWN, colour)}  ", f"{', '.join(names)}: {reason}", indent, columns)
        for hint in dict.fromkeys(one.hint for one in same if one.hint):
            yield from row(f"{' ' * indent}to do:  ", hint, indent + 8, columns)


def block(finding: Finding, sizes: tuple[int, int | None], accepted: bool, colour: bool) -> Iterator[str]:
    """One finding that wants reading; `sizes` are those of the names' column and of the screen."""
    width, columns = sizes
    note = "  (accepted)" if accepted and finding.refuses else ""
    indent = LEVEL_WIDTH + 2 + width + 2
    head = f"{paint(finding.level, colour)}  {finding.check:<{width}}  "
    yield from row(head, f"{finding.found}{note}", indent, columns)
    for word, text in (("needed: ", finding.need), ("stated: ", finding.origin), ("to do:  ", finding.hint)):
        if text:
            yield from row(" " * indent + word, text, indent + len(word), columns)


def paint(level: Level, colour: bool) -> str:
    word = f"{level.value:<{LEVEL_WIDTH}}"
    return f"\x1b[{COLOURS[level]}m{word}\x1b[0m" if colour else word


def verdict(findings: Sequence[Finding], accepted: frozenset[str]) -> str:
    """One sentence at the end."""
    refusing = [finding.check for finding in findings if finding.refuses and finding.check not in accepted]
    if not refusing:
        overruled = [finding.check for finding in findings if finding.refuses]
        return "it can be deployed" + (f", with {', '.join(overruled)} accepted" if overruled else "")
    of = f"of {counted(len(findings), 'check')}"
    told = counted(len(refusing), f"{of} refuses", f"{of} refuse")
    return f"it cannot be deployed: {told} ({', '.join(refusing)})"
