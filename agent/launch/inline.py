"""Variables within a word that is already a word: no quotes, no backslashes, no tilde."""

from __future__ import annotations

import re

from agent.launch.quoting import Reader
from agent.launch.words import Literal, Part, Word

_INTERESTING = re.compile(r"\$(?=[A-Za-z_{(])")


def word_of(text: str) -> Word:
    """The word's parts. A `$` before anything but a name, a brace or a parenthesis is a letter."""
    parts: list[Part] = []
    at = 0
    while found := _INTERESTING.search(text, at):
        parts.append(Literal(text[at : found.start()], quoted=True))
        reader = Reader(text)
        reader.at = found.start()
        parts.append(reader.dollar())
        at = reader.at
    parts.append(Literal(text[at:], quoted=True))
    return tuple(parts)
