"""Variables in a compose file: `$NAME`, `${NAME:-default}` and `$$`, by compose's rules, from the context alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from agent.launch.model import Context
from agent.launch.refusal import BadCompose, UnknownVariable

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATOR = re.compile(r":?[-?+]")
_DEEPEST = 20


@dataclass(slots=True)
class Interpolation:
    """Expands values one after another and remembers every variable that has no value."""

    context: Context
    missing: list[str] = field(default_factory=list)

    def value(self, value: Any) -> Any:
        """`value` with the variables of all its texts filled in; keys stay as they are."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return value

    def text(self, text: str) -> str:
        """One text."""
        out, at = self._until(text, 0, "", 0)
        return out if at >= len(text) else out + text[at:]

    def check(self) -> None:
        """Raise UnknownVariable with all names that had no value."""
        if self.missing:
            names = list(dict.fromkeys(self.missing))
            raise UnknownVariable(names=", ".join(names), missing=names)

    def _until(self, text: str, at: int, stop: str, depth: int) -> tuple[str, int]:
        """Expand up to `stop`; the text and the index of the stop."""
        out: list[str] = []
        while at < len(text):
            following = text.find("$", at)
            end = text.find(stop, at) if stop else -1
            if end >= 0 and (following < 0 or end < following):
                return "".join([*out, text[at:end]]), end
            if following < 0:
                return "".join([*out, text[at:]]), len(text)
            out.append(text[at:following])
            piece, at = self._dollar(text, following + 1, depth)
            out.append(piece)
        return "".join(out), at

    def _dollar(self, text: str, at: int, depth: int) -> tuple[str, int]:
        if text.startswith("$", at):
            return "$", at + 1
        if found := _NAME.match(text, at):
            return self._plain(found[0]), found.end()
        found = _NAME.match(text, at + 1) if text.startswith("{", at) else None
        if found is None or depth >= _DEEPEST:
            how = "a dollar sign that is meant as one is written $$"
            raise BadCompose(where=repr(text[max(at - 1, 0) : at + 40]), why="this is no variable", how=how)
        return self._braced(text, found, depth)

    def _braced(self, text: str, found: re.Match[str], depth: int) -> tuple[str, int]:
        at = found.end()
        operator = _OPERATOR.match(text, at)
        known = self.context.lookup(found[0])
        if operator is None:
            if not text.startswith("}", at):
                raise BadCompose(where=repr(text[:60]), why="this is no variable", how="compose knows ${NAME:-default}")
            return self._plain(found[0]), at + 1
        before = len(self.missing)
        operand, end = self._until(text, operator.end(), "}", depth + 1)
        if end >= len(text):
            raise BadCompose(where=repr(text[:60]), why="the ${ is never closed", how="add the }")
        has = known is not None and not (operator[0].startswith(":") and known == "")
        used = has == (operator[0][-1] == "+")
        if not used:
            del self.missing[before:]
        if operator[0][-1] == "?":
            del self.missing[before:]
            self.missing.extend([] if has else [found[0]])
            return known or "", end + 1
        return (operand if used else (known or "") if operator[0][-1] == "-" else ""), end + 1

    def _plain(self, name: str) -> str:
        value = self.context.lookup(name)
        if value is None:
            self.missing.append(name)
        return value or ""
