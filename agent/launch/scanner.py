"""Shell text into tokens: words by the shell's rules of quoting, operators, here-documents left out."""

from __future__ import annotations

import re

from agent.launch.quoting import Reader
from agent.launch.refusal import ShellConstruct
from agent.launch.words import Literal, Part, Tilde, Token, Word

OPERATORS = ("&&", "||", ";;", "|&", ";", "&", "|", "(", ")", "\n")
REDIRECTIONS = ("<<<", "<<-", "&>>", ">>", "<<", "<>", ">&", "<&", "&>", ">|", "<", ">")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"""[^\\'"$`|&;()<>\s#~]+""")
_EMPTY_LINES = re.compile(r"\s+")
_BLANKS = re.compile(r"[ \t\r]+")
_DELIMITER = re.compile(r"""[ \t]*(?:'([^'\n]*)'|"([^"\n]*)"|\\?([^\s;&|<>()'"]+))""")
_USER = re.compile(r"[A-Za-z0-9_.+-]*")


class Scanner(Reader):
    """Reads tokens from `text`, one at a time."""

    def __init__(self, text: str, *, plain: bool = False) -> None:
        """`plain`: nothing but quotes and blanks means anything; operators and comments are letters."""
        super().__init__(text)
        self.plain = plain
        self._heredocs: list[tuple[str, bool]] = []

    def token(self) -> Token | None:
        """The next word or operator; None at the end. Raises ShellConstruct for what has no end."""
        self._skip_blanks()
        if self.at >= len(self.text):
            return None
        start = self.at
        if not self.plain and (operator := self._operator()) is not None:
            return operator
        return Token(word=self._word(), text=self.text[start : self.at])

    def _skip_blanks(self) -> None:
        while True:
            if found := _BLANKS.match(self.text, self.at):
                self.at = found.end()
            elif self.text.startswith(("\\\n", "\\\r\n"), self.at):
                self.at = self.text.index("\n", self.at) + 1
            elif self.plain and self.text.startswith("\n", self.at):
                self.at += 1
            elif not self.plain and self.text.startswith("#", self.at):
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def _operator(self) -> Token | None:
        here = self.text[self.at : self.at + 3]
        if here[0] not in "<>&|;()\n":
            return None
        for operator in (*REDIRECTIONS, *OPERATORS):
            if here.startswith(operator):
                self.at += len(operator)
                return self._after(operator)
        return None

    def _after(self, operator: str) -> Token:
        if operator in ("<<", "<<-"):
            self._note_heredoc(strip=operator == "<<-")
        elif operator == "\n":
            if self._heredocs:
                self._skip_heredocs()
            if found := _EMPTY_LINES.match(self.text, self.at):
                self.at = found.end()
        return Token(text=operator)

    def _note_heredoc(self, *, strip: bool) -> None:
        found = _DELIMITER.match(self.text, self.at)
        if found:
            self._heredocs.append((next(group for group in found.groups() if group is not None), strip))

    def _skip_heredocs(self) -> None:
        for delimiter, strip in self._heredocs:
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end].rstrip("\r")
                self.at = min(end + 1, len(self.text))
                if (line.lstrip("\t") if strip else line) == delimiter:
                    break
        self._heredocs = []

    def _word(self) -> Word:
        parts: list[Part] = []
        text = self.text
        while self.at < len(text):
            char = text[self.at]
            if char in (" \t\r\n" if self.plain else " \t\r\n;&|()<>"):
                break
            if self.plain and char in ";&|()<>~":
                self.at += 1
                parts.append(Literal(char))
            elif char == "~":
                parts.append(self._tilde(parts))
            elif found := _PLAIN.match(text, self.at):
                self.at = found.end()
                parts.append(Literal(found[0]))
            elif char == "#":
                self.at += 1
                parts.append(Literal("#"))
            else:
                parts.extend(self._quoted_or_dollar(depth=0))
        return tuple(parts)

    def _tilde(self, parts: list[Part]) -> Part:
        """A tilde counts at a word's start, and after `=` or `:` in an assignment before the command."""
        self.at += 1
        if parts and not _is_assignment_start(parts):
            return Literal("~")
        found = _USER.match(self.text, self.at)
        user = found[0] if found else ""
        after = self.text[self.at + len(user) : self.at + len(user) + 1]
        if after == "=":
            raise ShellConstruct(word="~=", why="shells differ on what this tilde means")
        if after and after not in "/: \t\r\n;&|()<>":
            return Literal("~")
        self.at += len(user)
        return Tilde(user)


def _is_assignment_start(parts: list[Part]) -> bool:
    """Whether what was read so far is `NAME=` (or one more path of a list), where a shell expands a tilde."""
    if not all(isinstance(part, Literal) and not part.quoted for part in parts):
        return False
    text = "".join(part.text for part in parts if isinstance(part, Literal))
    name, equals, value = text.partition("=")
    return bool(equals and _NAME.fullmatch(name) and (not value or value.endswith(":")))
