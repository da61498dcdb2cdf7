"""`$((…))`: whole numbers, the four operations, remainder, parentheses and names; everything else is refused."""

from __future__ import annotations

import re
from collections.abc import Callable

from agent.launch.refusal import ShellConstruct

_TOKEN = re.compile(r"\s*(?:([0-9]{1,18})(?![0-9A-Za-z_#])|\$?\{?([A-Za-z_][A-Za-z0-9_]*)\}?|([-+*/%()]))")
_DEEPEST = 40


def evaluate(expression: str, lookup: Callable[[str], str | None], missing: list[str]) -> int:
    """The value of `expression`; names without a value go to `missing`. Raises ShellConstruct."""
    tokens: list[str] = []
    at = 0
    text = expression.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found or len(tokens) > 200:
            raise ShellConstruct(word=f"$(({expression}))"[:80], why="this arithmetic is not known")
        tokens.append(found[1] or found[3] or _valued(found[2], lookup, missing, expression))
        at = found.end()
    reader = _Reader(tokens, expression)
    value = reader.sum(0)
    if reader.at != len(tokens):
        raise reader.error("this arithmetic is not known")
    return value


def _valued(name: str, lookup: Callable[[str], str | None], missing: list[str], expression: str) -> str:
    value = lookup(name)
    if value is None:
        missing.append(name)
        return "1"
    if not re.fullmatch(r"0|[1-9][0-9]{0,17}", value.strip()):
        raise ShellConstruct(word=f"$(({expression}))"[:80], why=f"{name} is no plain number")
    return value.strip()


class _Reader:
    def __init__(self, tokens: list[str], expression: str) -> None:
        self.tokens = tokens
        self.expression = expression
        self.at = 0

    def error(self, why: str) -> ShellConstruct:
        return ShellConstruct(word=f"$(({self.expression}))"[:80], why=why)

    def _take(self, *wanted: str) -> str | None:
        if self.at < len(self.tokens) and self.tokens[self.at] in wanted:
            self.at += 1
            return self.tokens[self.at - 1]
        return None

    def sum(self, depth: int) -> int:
        value = self._product(depth)
        while operator := self._take("+", "-"):
            other = self._product(depth)
            value = value + other if operator == "+" else value - other
        return value

    def _product(self, depth: int) -> int:
        value = self._single(depth)
        while operator := self._take("*", "/", "%"):
            value = self._applied(operator, value, self._single(depth))
        return value

    def _applied(self, operator: str, left: int, right: int) -> int:
        if operator == "*":
            return left * right
        if right == 0:
            raise self.error("division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right

    def _single(self, depth: int) -> int:
        if depth > _DEEPEST:
            raise self.error("it is nested too deeply")
        if self._take("-"):
            return -self._single(depth + 1)
        if self._take("+"):
            return self._single(depth + 1)
        if self._take("("):
            value = self.sum(depth + 1)
            if not self._take(")"):
                raise self.error("a parenthesis is never closed")
            return value
        if self.at < len(self.tokens) and self.tokens[self.at].isdecimal():
            self.at += 1
            number = self.tokens[self.at - 1]
            return int(number, 8) if re.fullmatch(r"0[0-7]+", number) else int(number)
        raise self.error("this arithmetic is not known")
