"""The secrets that this process has read, kept out of everything that it says: replies, events, evidence, log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent.incident.redact import HIDDEN, redact_text, secret_name

SHORTEST = 6
"""A shorter value is too likely to be a part of other words."""


class Veil:
    """Hides by value what it has been told of, and by form what looks like a secret wherever it came from.

    A value is learned when it is read, so that nothing can be said of it before.
    """

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def learn(self, value: str) -> str:
        """Never say `value` from now on; it is given back."""
        if len(value) >= SHORTEST and value not in self._values:
            self._values.add(value)
            longest_first = sorted(self._values, key=len, reverse=True)
            self._pattern = re.compile("|".join(re.escape(one) for one in longest_first))
        return value

    def known(self, text: str) -> str:
        """`text` without the values that were learned."""
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)

    def text(self, text: str) -> str:
        """`text` without secrets, known ones or by their form."""
        return redact_text(self.known(text))

    def clean(self, value: Any) -> Any:
        """The same for JSON. Keys are names and stay; a list may be a command line."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.clean(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._word(value, index) for index in range(len(value))]
        return value

    def _word(self, words: list[Any] | tuple[Any, ...], index: int) -> Any:
        """What stands behind `--api-key` and its like is a secret, whatever it looks like."""
        word, before = words[index], words[index - 1] if index else ""
        asked = isinstance(before, str) and before.startswith("--") and "=" not in before and secret_name(before)
        if asked and isinstance(word, str) and not word.startswith(("secret:", "--")):
            return HIDDEN
        return self.clean(word)
