"""What a shell's words are made of, once read: letters, variables, substitutions, arithmetic, tildes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Literal:
    """Text as it is; `quoted` text is never a pattern, an operator or a tilde."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """`$NAME`, or `${NAME` operator operand `}`; `source` is how it was written."""

    name: str
    quoted: bool
    source: str
    operator: str = ""
    operand: Word = ()


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(command)` or backticks: the command's text, blanks folded."""

    command: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`$((expression))`."""

    expression: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Tilde:
    """An unquoted `~` where a shell expands it; `user` is empty for one's own home."""

    user: str


Part = Literal | Variable | Substitution | Arithmetic | Tilde
Word = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """A word with its text, or an operator (`word` is None)."""

    text: str
    word: Word | None = None
