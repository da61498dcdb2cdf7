"""Shell text read command by command: launches, steps, and what assignments and `cd` change for the lines after."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from agent.launch import assignments, cli, programs
from agent.launch.body import launch_of
from agent.launch.dialect import dialect_of, windows_lines
from agent.launch.expand import Expander
from agent.launch.model import (
    MOST_LAUNCHES,
    CommandLaunch,
    ContainerLaunch,
    Context,
    LaunchWarning,
    Piece,
    SetupStep,
    StepKind,
)
from agent.launch.prefix import stripped
from agent.launch.prefix import warnings as felt
from agent.launch.refusal import LaunchRefused, NoLaunch, Placeholder, ShellConstruct
from agent.launch.statements import Simple, statements
from agent.launch.steps import is_known, step_of
from agent.launch.substitute import make_variables
from agent.launch.words import Word

_UNFILLED = re.compile(r"<[^<>]*>")
_EXPORTS = ("export", "declare", "typeset", "readonly", "local")
_LAUNCH_LIKE = re.compile(
    r"\b(?:docker|podman|nerdctl)\b[^\n]*?\s(?:run|create)\b|\b(?:vllm|sglang)\s+serve\b|\bllama-server\b|\btrtllm-serve\b"
)


def read_text(text: str, context: Context) -> tuple[Piece, ...]:
    """Every launch and step of `text`, in order. Raises LaunchRefused for a launch that has no exact meaning."""
    dialect = dialect_of(text)
    if dialect != "posix":
        return _windows(text, dialect, context)
    reader = _Reader(context)
    commands = list(statements(text))
    only = sum(1 for command in commands if command.words) == 1
    for command in commands:
        reader.take(command, only=only)
    return tuple(reader.pieces)


def _windows(text: str, dialect: str, context: Context) -> tuple[Piece, ...]:
    expander = Expander(context)
    pieces: list[Piece] = []
    for source, words in windows_lines(text, dialect, expander):
        expander.check()
        prefix = stripped(words)
        if cli.is_launch(prefix.argv):
            pieces.append(replace(launch_of(cli.parse(prefix.argv, context), context), text=source))
        elif programs.serves(prefix.argv):
            pieces.append(CommandLaunch(prefix.argv, prefix.env, context.cwd, (), prefix.wrapper, source))
        else:
            pieces.append(step_of(prefix.argv, source, context.cwd))
    return tuple(pieces)


@dataclass(slots=True)
class _Reader:
    """The state that one line leaves to the next: variables, lists, the directory."""

    context: Context
    assigned: dict[str, str] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    lists: dict[str, list[str]] = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)
    launches: int = 0
    tested: bool = False

    def _add(self, launch: ContainerLaunch | CommandLaunch) -> None:
        self.pieces.append(launch)
        self.launches += 1
        if self.launches > MOST_LAUNCHES:
            raise NoLaunch(why=f"it holds more than {MOST_LAUNCHES} launches")

    def take(self, command: Simple, *, only: bool) -> None:
        """Read one simple command."""
        self.tested = command.before == "&&" and self.tested
        command.compound = command.compound or self.tested or command.before == "||"
        if command.broken is not None:
            self._broken(command, command.broken)
            return
        self._lists(command)
        words = self._assignments(command)
        if words:
            self._command(command, words, only=only)

    def _broken(self, command: Simple, error: ShellConstruct) -> None:
        if _LAUNCH_LIKE.search(command.text):
            raise error
        self.pieces.append(SetupStep(StepKind.OTHER, (), {}, command.text, self.context.cwd, error.text))

    def _expander(self) -> Expander:
        return Expander(self.context, self.assigned, self.lists)

    def _lists(self, command: Simple) -> None:
        for name, items in command.lists.items():
            expander = self._expander()
            fields = [text for item in items for text in expander.fields(item)]
            plain = name.removesuffix("+")
            if command.compound or expander.missing or expander.unknown_commands:
                self.lists.pop(plain, None)
                self._note(command, f"{name}=(…)", expander)
                continue
            before = self.lists.get(plain, []) if plain != name else []
            self.lists = {**self.lists, plain: [*before, *fields]}

    def _assignments(self, command: Simple) -> list[Word]:
        """Take assignments that stand alone; return the words of a command (with the assignments before it)."""
        at = 0
        while at < len(command.words) and assignments.assignment(command.words[at]):
            at += 1
        if at < len(command.words):
            export = assignments.letters(command.words[at])
            if export in _EXPORTS and at == 0:
                self._export(command, command.words[1:], exported=export == "export")
                return []
            return command.words
        if at:
            self._export(command, command.words, exported=False)
        return []

    def _export(self, command: Simple, words: list[Word], *, exported: bool) -> None:
        names: dict[str, str | None] = {}
        expander = self._expander()
        for word in words:
            found = assignments.assignment(word)
            if found is None:
                names[assignments.letters(word)] = None
                continue
            value = expander.joined(assignments.value(word, found))
            names[found[1]] = self._keep(found, value, expander, doubtful=command.compound)
        if exported or all(name in self.exported for name in names):
            self.exported |= set(names)
        known = {name: value for name, value in names.items() if name and not name.startswith("-")}
        why = _why(expander)
        step = SetupStep(
            StepKind.EXPORT, (), {"variables": known, "exported": exported}, command.text, self.context.cwd, why
        )
        self.pieces.append(step)

    def _keep(self, found: re.Match[str], value: str, expander: Expander, *, doubtful: bool) -> str | None:
        """Remember an assignment, unless its value or whether it happens is not known: then only the site may know it.

        A value still to be filled in (`<your token>`) does not hide one that the site has.
        """
        name = found[1]
        unfilled = _UNFILLED.fullmatch(value) is not None and self.context.lookup(name) is not None
        if doubtful or unfilled or expander.missing or expander.unknown_commands:
            self.assigned = {key: text for key, text in self.assigned.items() if key != name}
            return None
        before = (self._expander().lookup(name) or "") if found[2] else ""
        self.assigned = {**self.assigned, name: before + value}
        return before + value

    def _command(self, command: Simple, words: list[Word], *, only: bool) -> None:
        expander = self._expander()
        try:
            argv = [text for word in words for text in expander.fields(word)]
        except LaunchRefused as error:
            if _LAUNCH_LIKE.search(command.text):
                raise
            self.pieces.append(SetupStep(StepKind.OTHER, (), {}, command.text, self.context.cwd, error.text))
            return
        prefix = stripped(argv)
        other = is_known(prefix.argv) or programs.is_utility(prefix.argv) or programs.is_prompt(prefix.argv)
        alone = only and bool(prefix.argv) and not other
        if cli.is_launch(prefix.argv) or programs.serves(prefix.argv) or alone:
            self._add(self._launch(command, argv, expander))
        else:
            self._step(command, argv, expander)

    def _launch(self, command: Simple, argv: list[str], expander: Expander) -> ContainerLaunch | CommandLaunch:
        _refuse_conditions(command)
        expander.unknown_commands.extend(make_variables(argv))
        expander.check()
        prefix = stripped(argv)
        warnings = (*expander.warnings, *_piped(command))
        if not cli.is_launch(prefix.argv):
            warnings = (*warnings, *felt(prefix))
            return CommandLaunch(prefix.argv, prefix.env, self.context.cwd, warnings, prefix.wrapper, command.text)
        launch = launch_of(cli.parse(prefix.argv, self._environment(prefix.env)), self._environment(prefix.env))
        return replace(launch, warnings=(*warnings, *launch.warnings), text=command.text)

    def _environment(self, env: dict[str, str]) -> Context:
        """What the client would find in its environment: the site's variables and what the text exports."""
        exported = {name: self.assigned[name] for name in self.exported if name in self.assigned}
        site = {name: self.assigned.get(name, value) for name, value in self.context.variables.items()}
        return replace(self.context, variables={**site, **exported, **env})

    def _step(self, command: Simple, argv: list[str], expander: Expander) -> None:
        why = _why(expander)
        prefix = stripped(argv)
        step = step_of(prefix.argv, command.text, self.context.cwd)
        if why:
            step = replace(step, argv=(), facts={}, why=why)
        self.pieces.append(step)
        self.tested = self.tested or prefix.argv[:1] in (("[",), ("[[",), ("test",))
        if step.kind is StepKind.CHDIR or prefix.argv[:1] == ("cd",):
            self._chdir(step)

    def _chdir(self, step: SetupStep) -> None:
        """Later lines start in the new directory; where it is not known, `pwd` is not either."""
        path = step.facts.get("path") or self._expander().lookup("HOME")
        known = bool(path) and not step.why and (str(path).startswith("/") or self.context.cwd is not None)
        cwd = self.context.absolute(str(path)) if known else None
        variables = {name: value for name, value in self.context.variables.items() if name != "PWD"}
        self.context = replace(self.context, cwd=cwd, variables=variables)

    def _note(self, command: Simple, text: str, expander: Expander) -> None:
        step = SetupStep(StepKind.OTHER, (), {}, command.text or text, self.context.cwd, _why(expander))
        self.pieces.append(step)


def _refuse_conditions(command: Simple) -> None:
    if command.placeholder:
        raise Placeholder(missing=[command.placeholder], word=command.placeholder)
    if command.before == "||":
        raise ShellConstruct(word=command.text[:60], why="whether it runs depends on the command before it")
    if command.compound:
        raise ShellConstruct(word=command.text[:60], why="it stands within a condition, a loop or a function")


def _piped(command: Simple) -> list[LaunchWarning]:
    if command.before not in ("|", "|&"):
        return []
    return [LaunchWarning("shell.piped_input", "the command reads what another one prints, which nothing does here")]


def _why(expander: Expander) -> str:
    names = [*dict.fromkeys(expander.missing), *(f"$({command})" for command in expander.unknown_commands)]
    return f"no value is known for {', '.join(names)}" if names else ""
