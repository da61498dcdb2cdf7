"""Words into arguments: variables, substitutions and `~` get their values from the context, never from this machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.launch.arithmetic import evaluate
from agent.launch.braces import braced
from agent.launch.fields import glued_list, split_text
from agent.launch.model import LARGEST, Context, LaunchWarning
from agent.launch.pattern import cased, matcher, replaced, sliced, trimmed
from agent.launch.refusal import ShellConstruct, UnknownSubstitution, UnknownVariable
from agent.launch.substitute import substitution, unique
from agent.launch.words import Arithmetic, Literal, Part, Substitution, Tilde, Variable, Word

UNSET_OPERATORS = (":-", "-", ":=", "=", ":+", "+")
"""Forms that have a meaning where the variable is not set."""


@dataclass(slots=True)
class Expander:
    """Expands words one after another and remembers everything that was missing, to be named at once."""

    context: Context
    assigned: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    unknown_commands: list[str] = field(default_factory=list)
    warnings: list[LaunchWarning] = field(default_factory=list)
    letters: int = 0

    def fields(self, word: Word) -> list[str]:
        """The arguments a word becomes: none, one, or several where an unquoted value has blanks, or braces do it."""
        words = braced(word)
        if len(words) > 1:
            said = "braces outside quotes stand for several words in bash, and for themselves in other shells"
            self.warnings.append(LaunchWarning("shell.braces", said, "quotes around the word"))
            words = braced(_without_late_tildes(word))
        self._note_pattern(word)
        fields = [text for each in words for text in self._fields(each)]
        if len(fields) > 1 and Literal("$") in word:
            raise ShellConstruct(word=fields[-1], why="shells differ on a lone $ beside a value with blanks")
        return fields

    def _note_pattern(self, word: Word) -> None:
        if any(isinstance(part, Literal) and not part.quoted and "*" in part.text for part in word):
            said = "a * outside quotes stands for the files that match it, if there are any; here it stays as it is"
            self.warnings.append(LaunchWarning("shell.pattern", said, "quotes around the word"))

    def _fields(self, word: Word) -> list[str]:
        fields: list[str] = []
        open_field: str | None = None
        for part in word:
            if isinstance(part, Variable) and (items := self._items(part)) is not None:
                open_field = glued_list(items, open_field, fields)
                continue
            text, splits, nothing = self._part(part)
            if nothing:
                continue
            self._measure(text)
            open_field = split_text(text, open_field, fields) if splits else (open_field or "") + text
        if open_field is not None:
            fields.append(open_field)
        return fields

    def _items(self, part: Variable) -> list[str] | None:
        """The items of a list that was filled in the text itself."""
        name = part.name.removesuffix("[@]").removesuffix("[*]")
        return self.lists.get(name) if name != part.name and not part.operator else None

    def joined(self, word: Word) -> str:
        """The word as one string, never split: an assignment's value."""
        return "".join(self._measure(self._part(part)[0]) for part in word)

    def _measure(self, text: str) -> str:
        """Values that double themselves line by line end here."""
        self.letters += len(text)
        if self.letters > LARGEST:
            raise ShellConstruct(word=text[:40], why=f"its values make more than {LARGEST} letters")
        return text

    def check(self) -> None:
        """Raise for everything that was missing. Raises UnknownVariable, UnknownSubstitution."""
        if self.unknown_commands:
            commands = unique(self.unknown_commands)
            names = unique(self.missing)
            named = ", ".join([*(f"$({command})" for command in commands), *names])
            raise UnknownSubstitution(commands=named, missing=commands, variables=names)
        if self.missing:
            names = unique(self.missing)
            raise UnknownVariable(names=", ".join(names), missing=names)

    def lookup(self, name: str) -> str | None:
        """A variable's value: assigned in the text itself, or from the context."""
        return self.assigned.get(name, self.context.lookup(name))

    def _part(self, part: Part) -> tuple[str, bool, bool]:
        """Text of a part, whether blanks split it, and whether it is no text at all (not even an empty one)."""
        match part:
            case Literal(text, quoted):
                return text, False, False if quoted else not text
            case Variable():
                return self._variable(part)
            case Substitution(command, quoted):
                return self._command(command), not quoted, False
            case Arithmetic(expression, quoted):
                return self._arithmetic(expression), not quoted, False
            case Tilde(user):
                return self._home(user), False, False

    def _variable(self, part: Variable) -> tuple[str, bool, bool]:
        if part.name.endswith(("[@]", "[*]")) or part.name in ("@", "*"):
            return self._list(part)
        if part.name in ("$", "!", "?", "#", "-", "0"):
            # A shell's own, or a Makefile's doubled dollar: nothing that a site could supply under that name.
            self.missing.append(part.source)
            return "", not part.quoted, False
        value = self.lookup(part.name)
        if part.operator in UNSET_OPERATORS:
            return self._defaulted(part, value)
        if value is None:
            self.missing.append(part.name)
            return "", not part.quoted, False
        return self._altered(part, value), not part.quoted, False

    def _list(self, part: Variable) -> tuple[str, bool, bool]:
        """An array or the script's arguments: nobody gave one, and a shell makes nothing of an unset one."""
        if part.operator in (":-", "-", ":=", "="):
            return self._operand(part)
        if part.operator not in ("", ":+", "+"):
            raise ShellConstruct(word=part.source, why="nothing is known of this list")
        self.warnings.append(
            LaunchWarning(
                "shell.list_unset",
                f"{part.source} is a list that is filled elsewhere; with none given it stands for no argument at all",
                "the arguments themselves in its place",
            )
        )
        return "", False, True

    def _defaulted(self, part: Variable, value: str | None) -> tuple[str, bool, bool]:
        has = value is not None and (value != "" or not part.operator.startswith(":"))
        if part.operator in (":+", "+"):
            return self._operand(part) if has else ("", not part.quoted, False)
        if has and value is not None:
            return value, not part.quoted, False
        if part.operator == "-" and value is None:
            self._warn_accidental(part)
        text = self._operand(part)
        if part.operator in (":=", "="):
            self.assigned[part.name] = text[0]
        return text

    def _operand(self, part: Variable) -> tuple[str, bool, bool]:
        """The default's text; a quoted one stays whole even where the expansion itself is not quoted."""
        whole = part.quoted or any(isinstance(piece, Literal) and piece.quoted for piece in part.operand)
        return self.joined(part.operand), not whole, False

    def _warn_accidental(self, part: Variable) -> None:
        text = f"{part.source} means the variable {part.name}, or where it is not set the words after the dash"
        self.warnings.append(LaunchWarning("shell.dash_in_name", text, "a name without a dash"))

    def _altered(self, part: Variable, value: str) -> str:
        match part.operator:
            case "" | "?" | ":?":
                if part.operator == ":?" and not value:
                    self.missing.append(part.name)
                return value
            case "length":
                return str(len(value))
            case ":":
                return sliced(value, self.joined(part.operand), part.source)
            case "^" | "^^" | "," | ",,":
                if part.operand:
                    raise ShellConstruct(word=part.source, why="a pattern in a change of case")
                return cased(value, part.operator)
            case "/" | "//":
                return replaced(value, self._pattern(part.operand), part.operator == "//")
            case operator:
                return trimmed(value, operator, matcher(self._pattern(part.operand)))

    def _pattern(self, operand: Word) -> str:
        """The operand as a pattern, its quoted letters escaped."""
        out = []
        for piece in operand:
            text, _, _ = self._part(piece)
            literal = getattr(piece, "quoted", False)
            out.append("".join("\\" + char for char in text) if literal else text)
        return "".join(out)

    def _command(self, command: str) -> str:
        known = substitution(command, self.context)
        if known is None:
            self.unknown_commands.append(command)
        return known or ""

    def _arithmetic(self, expression: str) -> str:
        if "$(" in expression or "`" in expression:
            self.unknown_commands.append(f"({expression})")
            return ""
        value = evaluate(expression, self.lookup, self.missing)
        return str(value)

    def _home(self, user: str) -> str:
        if user in ("", "+"):
            name = "HOME" if not user else "PWD"
            value = self.lookup(name)
            if value is None:
                self.missing.append(name)
            return value or ""
        raise ShellConstruct(word=f"~{user}", why="another user's home is not known")


def _without_late_tildes(word: Word) -> Word:
    """Where braces make several words, only a tilde at the very start still means a home."""
    return tuple(Literal(f"~{part.user}") if isinstance(part, Tilde) and at else part for at, part in enumerate(word))
