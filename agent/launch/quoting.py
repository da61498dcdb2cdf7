"""Quotes and dollar signs of a shell's words, read by its rules; nothing is expanded here and nothing is run."""

from __future__ import annotations

import re

from agent.launch.refusal import ShellConstruct
from agent.launch.words import Arithmetic, Literal, Part, Substitution, Variable, Word

DEEPEST = 40
"""Levels of `${a:-${b:-…}}` that are read; beyond is no launch that anybody wrote."""
"""Levels of `${a:-${b:-…}}` that are read; beyond is no launch that anybody wrote."""

_IN_DOUBLE = re.compile(r'[^\\"$`]+')
_IN_BRACES = re.compile(r"""[^\\'"$`}]+""")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[@*0-9]+\])?|[0-9]+|[@*#?$!-]")
_CONTINUED_NAME = re.compile(r"\\\r?\n[A-Za-z0-9_]")
_QUOTE_OR_PAREN = re.compile(r"""[\\'"()`]""")
_ANSI = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_QUOTES = {quote: re.compile(rf"\\.|{quote}" if quote != "'" else quote, re.DOTALL) for quote in ("'", '"', "`")}
_DEFAULTS = frozenset({":-", ":=", ":+", ":?", "-", "=", "+", "?"})
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}


class Reader:
    """A text and how far it was read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def _quoted_or_dollar(self, depth: int, *, closing: str = "") -> list[Part]:
        char = self.text[self.at]
        if char == "\\":
            return self._escaped()
        if char == "'":
            return [Literal(self._until("'"), quoted=True)]
        if char == '"':
            return self._double(depth)
        if char == "`":
            return [Substitution(_folded(self._backticks()), quoted=False)]
        return [self.dollar(depth, quoted=False)]

    def _escaped(self) -> list[Part]:
        following = self.text[self.at + 1 : self.at + 2]
        if following == "\n" or self.text.startswith("\\\r\n", self.at):
            self.at = self.text.index("\n", self.at) + 1
            return []
        self.at += 2
        return [Literal(following or "\\", quoted=True)]

    def _until(self, quote: str) -> str:
        end = self.text.find(quote, self.at + 1)
        if end < 0:
            raise ShellConstruct(word=self._excerpt(), why=f"the quote {quote} is never closed")
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        return inside

    def _backticks(self) -> str:
        start = self.at
        end = self.text.find("`", start + 1)
        while end > 0 and self.text[end - 1] == "\\":
            end = self.text.find("`", end + 1)
        if end < 0:
            raise ShellConstruct(word=self._excerpt(), why="the backtick is never closed")
        self.at = end + 1
        return self.text[start + 1 : end].replace("\\`", "`")

    def _double(self, depth: int) -> list[Part]:
        start = self.at
        self.at += 1
        parts: list[Part] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return parts or [Literal("", quoted=True)]
            if found := _IN_DOUBLE.match(self.text, self.at):
                self.at = found.end()
                parts.append(Literal(found[0], quoted=True))
            elif char == "\\":
                parts.extend(self._escaped_in_double())
            elif char == "`":
                parts.append(Substitution(_folded(self._backticks()), quoted=True))
            else:
                parts.append(self.dollar(depth, quoted=True))
        self.at = start
        raise ShellConstruct(word=self._excerpt(), why='the quote " is never closed')

    def _escaped_in_double(self) -> list[Part]:
        following = self.text[self.at + 1 : self.at + 2]
        if following in ("$", "`", '"', "\\"):
            self.at += 2
            return [Literal(following, quoted=True)]
        if following == "\n" or self.text.startswith("\\\r\n", self.at):
            return self._escaped()
        self.at += 1
        return [Literal("\\", quoted=True)]

    def _ansi(self) -> str:
        found = _ANSI.match(self.text, self.at)
        if not found:
            raise ShellConstruct(word=self._excerpt(), why="the quote $' is never closed")
        self.at = found.end()
        return re.sub(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", _ansi_escape, found[1], flags=re.DOTALL)

    def dollar(self, depth: int = 0, *, quoted: bool = True) -> Part:
        """The expansion at the dollar sign that comes next."""
        start, text = self.at, self.text
        self.at += 1
        following = text[self.at : self.at + 1]
        if following == "'" and not quoted:
            return Literal(self._ansi(), quoted=True)
        if following == '"' and not quoted:
            return Literal("", quoted=True)
        if text.startswith("((", self.at) and (end := _closing(text, self.at)) and text[end - 1] == ")":
            self.at = end + 1
            return Arithmetic(text[start + 3 : end - 1], quoted)
        if following == "[":
            raise ShellConstruct(word=self._excerpt(start), why="$[ ] is arithmetic to bash and letters to others")
        if following == "(":
            return self._command(start, quoted=quoted)
        if following == "{":
            return self._braces(start, depth + 1, quoted=quoted)
        if found := _PARAMETER.match(text, self.at):
            name = found[0].partition("[")[0]
            name = name[0] if name.isdecimal() else name
            self.at += len(name)
            self._refuse_broken_name(name)
            return Variable(name, quoted, text[start : self.at])
        if text.startswith(("\\\n", "\\\r\n"), self.at):
            raise ShellConstruct(word=self._excerpt(start), why="a line ends within a variable's name")
        return Literal("$", quoted)

    def _refuse_broken_name(self, name: str) -> None:
        r"""A continued line joins before names are read: `$A\` and `b` on the next line are `$Ab`."""
        found = _CONTINUED_NAME.match(self.text, self.at) if name[0].isalpha() or name[0] == "_" else None
        if found:
            raise ShellConstruct(word=found[0], why="a line ends within a variable's name")

    def _command(self, start: int, *, quoted: bool) -> Part:
        end = _closing(self.text, self.at)
        if end is None:
            raise ShellConstruct(word=self._excerpt(), why="the substitution $( is never closed")
        self.at = end + 1
        return Substitution(_folded(self.text[start + 2 : end]), quoted)

    def _braces(self, start: int, depth: int, *, quoted: bool) -> Part:
        if depth > DEEPEST:
            raise ShellConstruct(word=self._excerpt(), why="it is nested too deeply")
        self.at += 1
        length = self.text.startswith("#", self.at) and not self.text.startswith("#}", self.at)
        found = _PARAMETER.match(self.text, self.at + length)
        if not found or self.text.startswith("!", self.at):
            raise ShellConstruct(word=self._excerpt(start), why="this form of ${ } is not known")
        self.at = found.end()
        operator = "length" if length else self._brace_operator()
        # Double quotes around the expansion make its default one word, but a pattern in it stays a pattern.
        operand = self._operand(depth, start, in_double=quoted and operator in _DEFAULTS)
        return Variable(found[0], quoted, self.text[start : self.at], operator, operand)

    def _brace_operator(self) -> str:
        for operator in (
            ":-",
            ":=",
            ":+",
            ":?",
            "-",
            "=",
            "+",
            "?",
            "##",
            "#",
            "%%",
            "%",
            "//",
            "/",
            "^^",
            "^",
            ",,",
            ",",
            ":",
        ):
            if self.text.startswith(operator, self.at):
                self.at += len(operator)
                return operator
        if not self.text.startswith("}", self.at):
            raise ShellConstruct(word=self._excerpt(), why="this form of ${ } is not known")
        return ""

    def _operand(self, depth: int, start: int, *, in_double: bool) -> Word:
        parts: list[Part] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "}":
                self.at += 1
                return tuple(parts)
            if found := _IN_BRACES.match(self.text, self.at):
                self.at = found.end()
                parts.append(Literal(found[0], in_double))
            elif char == "'" and in_double:
                self.at += 1
                parts.append(Literal("'", quoted=True))
            elif char == "$":
                parts.append(self.dollar(depth, quoted=in_double))
            else:
                parts.extend(self._quoted_or_dollar(depth))
        raise ShellConstruct(word=self._excerpt(start), why="the ${ is never closed")

    def _excerpt(self, start: int | None = None) -> str:
        at = self.at if start is None else start
        return self.text[at : at + 60].split("\n")[0]


def _closing(text: str, at: int) -> int | None:
    """Index of the parenthesis that closes the one at `at`; quotes within are stepped over."""
    depth = 0
    while found := _QUOTE_OR_PAREN.search(text, at):
        at = found.end()
        match found[0]:
            case "(":
                depth += 1
            case ")":
                depth -= 1
                if depth == 0:
                    return found.start()
            case "\\":
                at += 1
            case quote:
                at = _after_quote(text, at, quote)
                if at == 0:
                    return None
    return None


def _after_quote(text: str, at: int, quote: str) -> int:
    while found := _QUOTES[quote].search(text, at):
        at = found.end()
        if found[0] == quote:
            return at
    return 0


def _folded(command: str) -> str:
    return " ".join(command.split())


def _ansi_escape(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    if found[2]:
        return chr(int(found[2], 8) & 0xFF)
    return _ESCAPES.get(found[3], found[3] if found[3] in "\\'\"?" else "\\" + found[3])
