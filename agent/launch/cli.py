"""`docker run …` taken apart as the CLI takes it apart: flags until the first word that is none, image, command.

The rules are those of spf13/pflag: `--x v`, `--x=v`, `-x v`, `-xv`, `-x=v`, bundled letters, `--`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.launch.flags.kinds import Flag, Given
from agent.launch.flags.table import FLAGS, flags_of
from agent.launch.golang import Malformed
from agent.launch.model import Context
from agent.launch.podman import how_instead
from agent.launch.refusal import CliRejects, NoLaunch, NotCarried, UnknownFlag

TOOLS = ("docker", "podman", "nerdctl")
VERBS = ("run", "create")

_GLOBAL_VALUES = ("config", "context", "host", "log-level", "tlscacert", "tlscert", "tlskey")
_GLOBAL_SWITCHES = ("debug", "tls", "tlsverify")
_GLOBAL_SHORT = {"c": "context", "H": "host", "l": "log-level", "D": "debug"}
_ELSEWHERE = ("config", "context", "host", "tlscacert", "tlscert", "tlskey", "tls", "tlsverify")


@dataclass(slots=True)
class CommandLine:
    """One command line, read: the flags, what was written for each, and the image with its command."""

    tool: str
    verb: str
    given: Given
    written: dict[str, list[str]] = field(default_factory=dict)
    image: str = ""
    command: tuple[str, ...] = ()


def is_tool(word: str) -> bool:
    """Whether a word calls docker, podman or nerdctl, by whatever path."""
    return word.rpartition("/")[2] in TOOLS


def is_launch(argv: Sequence[str]) -> bool:
    """Whether the words are `docker [global flags] [container] run|create …`."""
    if not argv or not is_tool(argv[0]):
        return False
    rest = list(argv[1:])
    while rest and rest[0].startswith("-"):
        name = rest[0].lstrip("-")
        takes = "=" not in name and (name in _GLOBAL_VALUES or name in ("c", "H", "l"))
        rest = rest[2:] if takes else rest[1:]
    if rest[:1] == ["container"]:
        rest = rest[1:]
    return rest[:1] in (["run"], ["create"])


def parse(argv: Sequence[str], context: Context) -> CommandLine:
    """Take `argv` apart. Raises CliRejects, UnknownFlag, NoLaunch and what a flag's files raise."""
    tool, verb, words = _verb(argv)
    reader = _Reader(verb, context)
    rest = reader.read(words)
    line = CommandLine(tool, verb, reader.given, reader.written)
    if line.given.on("help"):
        raise CliRejects(word="--help", why="it prints the help and starts nothing")
    if not rest:
        why = f"'docker {verb}' requires at least 1 argument: no image is named (does a line lack its backslash?)"
        raise CliRejects(word=words[-1] if words else verb, why=why)
    line.image, line.command = rest[0], tuple(rest[1:])
    return line


def _verb(argv: Sequence[str]) -> tuple[str, str, list[str]]:
    if not argv or not is_tool(argv[0]):
        raise NoLaunch(why=f"{argv[0] if argv else 'nothing'!r} is no docker, podman or nerdctl")
    words = _without_globals(list(argv[1:]))
    if words[:1] == ["container"]:
        words = words[1:]
    if not words or words[0] not in VERBS:
        raise NoLaunch(why=f"{' '.join(argv[:3])!r} neither runs nor creates a container")
    return argv[0].rpartition("/")[2], words[0], words[1:]


def _without_globals(words: list[str]) -> list[str]:
    """Drop the client's own flags; those that name another engine are refused, not dropped."""
    while words and words[0].startswith("-") and len(words[0]) > 1:
        word = words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("--"):
            name = _GLOBAL_SHORT.get(name, name)
        if name not in _GLOBAL_VALUES and name not in _GLOBAL_SWITCHES:
            raise UnknownFlag(word=word, verb="", how="write the client's own flags out, before the verb")
        if name in _ELSEWHERE:
            raise NotCarried(
                word=word, why="it says which engine to talk to, and that is the site's to say", how="leave it out"
            )
        if name in _GLOBAL_VALUES and not equals:
            if not words:
                raise CliRejects(word=word, why="flag needs an argument")
            value = words.pop(0)
        if name == "log-level" and value not in ("debug", "info", "warn", "error", "fatal"):
            raise CliRejects(word=f"{word} {value}", why="unable to parse logging level")
    return words


class _Reader:
    def __init__(self, verb: str, context: Context) -> None:
        self.verb = verb
        self.context = context
        self.names, self.letters = flags_of(verb)
        self.given = Given({flag.key: [] if flag.many else flag.default for flag in FLAGS})
        self.written: dict[str, list[str]] = {}

    def read(self, words: list[str]) -> list[str]:
        """Read flags up to the first word that is none; return the rest."""
        at = 0
        while at < len(words):
            word = words[at]
            if len(word) < 2 or word[0] != "-":
                return words[at:]
            at += 1
            if word == "--":
                return words[at:]
            following = words[at] if at < len(words) else None
            used = self._long(word, following) if word.startswith("--") else self._letters(word, following)
            at += used
        return []

    def _long(self, word: str, following: str | None) -> int:
        name, equals, value = word[2:].partition("=")
        if not name or name.startswith("-"):
            raise CliRejects(word=word, why="bad flag syntax")
        flag = self.names.get(name)
        if flag is None:
            raise UnknownFlag(word=f"--{name}", verb=self.verb, how=how_instead(name, self.names), flag=name)
        if equals:
            self._set(flag, value)
        elif flag.switch:
            self._set(flag, "true")
        elif following is not None:
            self._set(flag, following)
            return 1
        else:
            raise CliRejects(word=word, why="flag needs an argument", flag=name)
        return 0

    def _letters(self, word: str, following: str | None) -> int:
        letters = word[1:]
        while letters and not letters.startswith("test."):
            flag = self.letters.get(letters[0])
            if flag is None:
                how = how_instead(letters[0], self.names)
                raise UnknownFlag(word=f"-{letters[0]} in {word}", verb=self.verb, how=how, flag=letters[0])
            if len(letters) > 2 and letters[1] == "=":
                self._set(flag, letters[2:])
                return 0
            if not flag.switch:
                return self._letter_value(flag, word, letters[1:], following)
            self._set(flag, "true")
            letters = letters[1:]
        return 0

    def _letter_value(self, flag: Flag, word: str, attached: str, following: str | None) -> int:
        if attached:
            self._set(flag, attached)
            return 0
        if following is None:
            raise CliRejects(word=word, why=f"flag needs an argument: '{flag.short}' in {word}", flag=flag.name)
        self._set(flag, following)
        return 1

    def _set(self, flag: Flag, text: str) -> None:
        try:
            value = flag.read(text, self.context)
        except Malformed as error:
            word = f"--{flag.name} {text}"
            raise CliRejects(
                word=word, why=f'invalid argument "{text}" for "{flag.label}" flag: {error}', flag=flag.name
            ) from error
        if flag.many:
            self.given.values[flag.key].append(value)
        else:
            self.given.values[flag.key] = value
        self.given.changed.add(flag.key)
        self.written.setdefault(flag.key, []).append(text)
