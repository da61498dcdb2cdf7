"""Shell text into simple commands: their words, the operators between them, the compounds around. Nothing expands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.launch.refusal import ShellConstruct
from agent.launch.scanner import REDIRECTIONS, Scanner
from agent.launch.words import Literal, Token, Word

MOST_BROKEN = 50
"""Lines that may be no shell at all before the whole text is taken for none."""

MOST_COMMANDS = 20_000
"""Commands that are read; a script that launches a model has a few dozen."""

_OPENERS = frozenset({"if", "for", "while", "until", "case", "select", "{", "function"})
_CLOSERS = frozenset({"fi", "done", "esac", "}"})
_BETWEEN = frozenset({"then", "else", "elif", "do", "!", "in"})


_PLACEHOLDER = re.compile(r"([A-Za-z](?:[A-Za-z0-9 ._:/-]{0,80}[A-Za-z0-9_.])?)>")


@dataclass(slots=True)
class Simple:
    """One simple command. `before` and `after` are the operators around it; `broken` says why it could not be read."""

    words: list[Word] = field(default_factory=list)
    lists: dict[str, list[Word]] = field(default_factory=dict)
    text: str = ""
    before: str = "\n"
    after: str = "\n"
    compound: bool = False
    broken: ShellConstruct | None = None
    placeholder: str = ""


def statements(text: str) -> Iterator[Simple]:
    """The simple commands of `text`, in order. Raises ShellConstruct where hardly a line is shell."""
    return _Parser(text).commands()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.scanner = Scanner(text)
        self.depth = 0
        self.before = "\n"
        self.broken = 0

    def commands(self) -> Iterator[Simple]:
        read = 0
        while self.scanner.at < len(self.text):
            start = self.scanner.at
            read += 1
            if read > MOST_COMMANDS:
                raise ShellConstruct(word=self.text[start : start + 40], why="no launch is that long")
            try:
                command = self._command()
            except ShellConstruct as error:
                yield self._skip_line(start, error)
                continue
            if command.words or command.lists:
                yield command

    def _skip_line(self, start: int, error: ShellConstruct) -> Simple:
        """A line that is no shell is kept as text, and the next line is a new start."""
        self.broken += 1
        if self.broken > MOST_BROKEN:
            raise error
        while self.text[start : start + 1].isspace():
            start += 1
        end = self.text.find("\n", start)
        while end > 0 and self.text[end - 1] == "\\":
            end = self.text.find("\n", end + 1)
        end = len(self.text) if end < 0 else end
        self.scanner.at, self.before = end, "\n"
        return Simple(text=self.text[start:end].strip(), broken=error, compound=self.depth > 0)

    def _command(self) -> Simple:
        command = Simple(before=self.before)
        start = end = -1
        while (token := self.scanner.token()) is not None:
            if token.word is None and token.text in REDIRECTIONS:
                self._redirect(command, token)
            elif token.word is None:
                if token.text == "(" and self._list(command):
                    continue
                self._operator(command, token.text)
                break
            elif not self._reserved(command, token):
                start = self.scanner.at - len(token.text) if start < 0 else start
                end = self.scanner.at
                command.words.append(token.word)
        else:
            self._operator(command, "\n")
        command.text = self.text[start:end] if start >= 0 else ""
        return command

    def _operator(self, command: Simple, operator: str) -> None:
        command.after = operator
        command.compound = command.compound or self.depth > 0
        self.before = operator
        if operator == "(":
            self.depth += 1
            self.before = "\n"
        elif operator == ")":
            self.depth = max(self.depth - 1, 0)

    def _reserved(self, command: Simple, token: Token) -> bool:
        """Whether the word opens, divides or closes a compound command."""
        if command.words or token.word is None or token.text not in _OPENERS | _CLOSERS | _BETWEEN:
            return False
        if token.text in _OPENERS:
            self.depth += 1
        elif token.text in _CLOSERS:
            self.depth = max(self.depth - 1, 0)
        command.compound = True
        return True

    def _list(self, command: Simple) -> bool:
        """`NAME=(…)`: the words of a list, over as many lines as it takes."""
        word = command.words[-1] if command.words else ()
        if len(word) != 1 or not isinstance(word[0], Literal) or word[0].quoted:
            return False
        name = word[0].text
        if not name.endswith("=") or self.text[self.scanner.at - 2] != "=":
            return False
        items: list[Word] = []
        while (token := self.scanner.token()) is not None and token.text != ")":
            if token.word is not None:
                items.append(token.word)
            elif token.text != "\n":
                raise ShellConstruct(word=f"{name}(", why=f"{token.text} within a list")
        command.words.pop()
        command.lists[name[:-1]] = items
        return True

    def _redirect(self, command: Simple, token: Token) -> None:
        """Where output goes is the client's affair; `<NAME>` is a place that its author left to be filled in."""
        self._drop_descriptor(command)
        at = self.scanner.at
        if token.text == "<" and (found := _PLACEHOLDER.match(self.text, at)):
            command.placeholder = command.placeholder or f"<{found[1]}>"
            self.scanner.at = found.end()
            return
        target = self.scanner.token()
        if target is None or target.word is None:
            raise ShellConstruct(word=token.text, why="nothing stands after the redirection")

    def _drop_descriptor(self, command: Simple) -> None:
        """The number of `2>` is no argument."""
        if not command.words:
            return
        word = command.words[-1]
        at = self.scanner.at - 1
        while at > 0 and self.text[at] in "<>&|":
            at -= 1
        single = len(word) == 1 and isinstance(word[0], Literal) and not word[0].quoted
        if single and isinstance(word[0], Literal) and word[0].text.isdecimal() and self.text[at].isdecimal():
            command.words.pop()
