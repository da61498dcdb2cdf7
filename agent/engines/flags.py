"""The words of a command line, asked for their flags. Engines' own habits of spelling, no engine's own flags."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_HUMAN = re.compile(r"(-?\d+(?:\.\d+)?)([kKmMgGtT]?)")
_UNSET = re.compile(r"\$\{?[A-Za-z_]")
_FACTOR = {
    "": 1,
    "k": 1000,
    "m": 1000**2,
    "g": 1000**3,
    "t": 1000**4,
    "K": 1 << 10,
    "M": 1 << 20,
    "G": 1 << 30,
    "T": 1 << 40,
}


class Flags:
    """Read-only view of the words after an engine's program.

    A flag's value is the next word or what follows `=`; the last one wins, as argparse has it. Underscores in a long
    flag's name count as dashes. A value that cannot be read as what it should be is None, "not said": the engine
    itself will refuse it, and this is no place to guess.
    """

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.pairs = tuple(pairs(words))

    def has(self, *names: str) -> bool:
        """One of these flags is given, with or without a value."""
        return any(name in names for name, _ in self.pairs)

    def text(self, *names: str) -> str | None:
        """The last value given under one of these names."""
        found = [value for name, value in self.pairs if name in names and value is not None]
        return found[-1] if found and not _UNSET.search(found[-1]) else None

    def number(self, *names: str) -> int | None:
        """A whole number; `128k` is 128,000 and `128K` 131,072, as vLLM reads them."""
        value = self.text(*names)
        return None if value is None else whole(value)

    def positive(self, *names: str) -> int | None:
        """A whole number above zero; 0, -1 and `auto` are how engines spell "decide yourself"."""
        number = self.number(*names)
        return number if number is not None and number > 0 else None

    def json(self, *names: str) -> dict[str, Any]:
        """A JSON object given as a value; empty where it is not one."""
        value = self.text(*names)
        try:
            found = json.loads(value) if value else {}
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def first(self) -> str | None:
        """The first word, where it is no flag (the model of `vllm serve MODEL`)."""
        word = self.words[0] if self.words else "-"
        return None if word.startswith("-") or _UNSET.search(word) else word


def pairs(words: tuple[str, ...]) -> Iterator[tuple[str, str | None]]:
    """Every flag with the word that may be its value; whether it takes one is for the asker to know."""
    for index, word in enumerate(words):
        if not word.startswith("-") or word in ("-", "--") or whole(word) is not None:
            continue
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            name = name.replace("_", "-")
        if equals:
            yield name, value
        elif index + 1 < len(words) and is_value(words[index + 1]):
            yield name, words[index + 1]
        else:
            yield name, None


def is_value(word: str) -> bool:
    return not word.startswith("-") or whole(word) is not None


def whole(text: str) -> int | None:
    """A whole number as people write it to engines; None where it is none."""
    match = _HUMAN.fullmatch(text.strip())
    if match is None:
        return None
    return int(float(match[1]) * _FACTOR[match[2]])


def truthy(text: str | None) -> bool:
    """A switch in an environment variable."""
    return text is not None and text.strip().lower() in ("1", "true", "on", "yes", "enabled")
