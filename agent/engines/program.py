"""Where an engine's own words begin in a command: behind launchers, shells and images that bring the program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.engines.model import Command

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})
_SEPARATORS = frozenset({"&&", "||", ";", "|", "&", "\n"})
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_FOREIGN = (
    frozenset(
        {"python", "python3", "sleep", "tail", "env", "torchrun", "ray", "nvidia-smi", "true", "cat", "pip", "uv"}
    )
    | _SHELLS
)


@dataclass(frozen=True, slots=True)
class Found:
    """The words after an engine's program, with the assignments that stood before it."""

    words: tuple[str, ...]
    env: dict[str, str]


def arguments(command: Command, programs: Sequence[tuple[str, ...]], images: re.Pattern[str] | None) -> Found | None:
    """The engine's arguments, or None where this command does not start it.

    `programs` are the word sequences that start the engine, a program's folder left out of account; `images` matches
    the references whose own entrypoint does, so that the words are arguments alone. Variables in a shell's script are
    read from the command's environment; one that is not there stays as it stands.
    """
    for words in simple_commands(command.words):
        for program in programs:
            if (at := position(words, program)) is not None:
                env = {**command.env, **assignments(words[:at])}
                return Found(tuple(expand(word, env) for word in words[at + len(program) :]), env)
    if images is not None and command.image and images.search(command.image.lower()) and are_arguments(command.words):
        return Found(command.words, dict(command.env))
    return None


def simple_commands(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The command itself, then each command of a script that it hands to a shell."""
    yield words
    script = shell_script(words)
    if script is None:
        return
    try:
        lexer = shlex.shlex(script.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        tokens = list(lexer)
    except ValueError:  # an open quote: the shell will refuse it as well
        return
    current: list[str] = []
    for token in [*tokens, ";"]:
        if token in _SEPARATORS:
            yield tuple(current)
            current = []
        else:
            current.append(token)


def shell_script(words: tuple[str, ...]) -> str | None:
    """The script of `bash -lc SCRIPT`."""
    for index, word in enumerate(words[:-1]):
        if base(word) in _SHELLS:
            for offset, option in enumerate(words[index + 1 : -1], start=index + 1):
                if option.startswith("-") and not option.startswith("--") and "c" in option:
                    return words[offset + 1]
                if not option.startswith("-"):
                    return None
    return None


def position(words: tuple[str, ...], program: tuple[str, ...]) -> int | None:
    """Where the program's word sequence starts."""
    for index in range(len(words) - len(program) + 1):
        if base(words[index]) == program[0] and words[index + 1 : index + len(program)] == program[1:]:
            return index
    return None


def base(word: str) -> str:
    """A program's name without its folder."""
    return word.rsplit("/", 1)[-1]


def assignments(words: tuple[str, ...]) -> dict[str, str]:
    """`A=1 B=2` in front of a program."""
    return dict(word.split("=", 1) for word in words if _ASSIGNMENT.fullmatch(word))


def expand(word: str, env: Mapping[str, str]) -> str:
    """`$NAME` and `${NAME}` from `env`."""
    return _VARIABLE.sub(lambda match: env.get(match[1] or match[2], match[0]), word)


def are_arguments(words: tuple[str, ...]) -> bool:
    """Words that an image's own entrypoint takes: none, flags, or a model before them; not another program."""
    if not words or words[0].startswith("-"):
        return True
    if base(words[0]) in _FOREIGN or words[0].startswith(("./", "/bin/", "/usr/")) or words[0].endswith(".sh"):
        return False
    return (len(words) == 1 and "/" in words[0]) or any(word.startswith("--") for word in words[1:])
