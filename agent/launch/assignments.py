"""`NAME=value` and `NAME+=value` among a command's words."""

from __future__ import annotations

import re

from agent.launch.words import Literal, Word

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=", re.DOTALL)


def letters(word: Word) -> str:
    """The word's letters that are no expansion."""
    return "".join(part.text for part in word if isinstance(part, Literal))


def assignment(word: Word) -> re.Match[str] | None:
    """`NAME=` or `NAME+=` at a word's start, unquoted."""
    first = word[0] if word else None
    return _ASSIGNMENT.match(first.text) if isinstance(first, Literal) and not first.quoted else None


def value(word: Word, found: re.Match[str]) -> Word:
    """What stands after the equals sign."""
    first = word[0]
    rest = first.text[found.end() :] if isinstance(first, Literal) else ""
    return (Literal(rest), *word[1:])
