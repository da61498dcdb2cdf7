"""Variables within a word that is already a word: no quotes, no backslashes, no tilde."""

from __future__ import annotations

import re

from agent.launch.words import Literal, Part, Scanner, Substitution, Variable, Word

_INTERESTING = re.compile(r"\$(?=[A-Za-z_{(])")


def word_of(text: str) -> Word:
    """The word's parts. A `$` before anything but a name, a brace or a parenthesis is a letter."""
    parts: list[Part] = []
    at = 0
    while found := _INTERESTING.search(text, at):
        parts.append(Literal(text[at : found.start()], quoted=True))
        scanner = Scanner(text)
        scanner.at = found.start()
        parts.append(scanner.dollar())
        at = scanner.at
    parts.append(Literal(text[at:], quoted=True))
    return tuple(parts)


def variables_in(text: str) -> list[str]:
    """Names of the variables that a word needs a value for."""
    return [part.name for part in word_of(text) if isinstance(part, Variable)]


def commands_in(text: str) -> list[str]:
    """Commands whose output a word needs."""
    return [part.command for part in word_of(text) if isinstance(part, Substitution)]
