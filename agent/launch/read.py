"""The doors of this package: an argument list, shell text or a compose file becomes launches. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from agent.launch import cli, programs
from agent.launch.body import launch_of
from agent.launch.compose import read as compose
from agent.launch.expand import Expander
from agent.launch.inline import word_of
from agent.launch.model import LARGEST, CommandLaunch, ContainerLaunch, Context, Piece
from agent.launch.prefix import stripped
from agent.launch.prefix import warnings as felt
from agent.launch.refusal import NoLaunch
from agent.launch.shell import read_text

_NO_LETTER = re.compile("[\0\ud800-\udfff]")


def read_argv(argv: Sequence[str], context: Context) -> ContainerLaunch | CommandLaunch:
    """A launch as a list of words in which `$NAME`, `${NAME…}` and `$(command)` may stand.

    Each word is expanded and stays one word: nothing is split, no quote or backslash means anything, `~` is a letter.
    Raises UnknownVariable with all names that have no value, UnknownSubstitution, CliRejects, UnknownFlag, NotCarried.
    """
    if not argv:
        raise NoLaunch(why="the argument list is empty")
    _refuse_unreadable("\n".join(argv))
    expander = Expander(context)
    words = [expander.joined(word_of(word)) for word in argv]
    expander.check()
    return launch_from_words(words, context, expander)


def launch_from_words(words: Sequence[str], context: Context, expander: Expander) -> ContainerLaunch | CommandLaunch:
    """Words that are complete: a container or a command; wrappers such as `sudo` are taken off."""
    prefix = stripped(words)
    if not prefix.argv:
        raise NoLaunch(why=f"{' '.join(words)[:80]!r} names no program")
    if programs.is_prompt(prefix.argv):
        raise NoLaunch(why=f"{' '.join(words)[:80]!r} begins with a prompt, and no program is called so: take it away")
    warnings = tuple(expander.warnings)
    if cli.is_tool(prefix.argv[0]):
        launch = launch_of(cli.parse(prefix.argv, with_env(context, prefix.env)), context)
        return replace(launch, warnings=(*warnings, *launch.warnings))
    return CommandLaunch(prefix.argv, prefix.env, context.cwd, (*warnings, *felt(prefix)), prefix.wrapper)


def _refuse_unreadable(text: str) -> None:
    """Too long, or with letters that no argument of a program can hold."""
    if len(text) > LARGEST:
        raise NoLaunch(why=f"it has {len(text)} letters, and no launch has more than {LARGEST}")
    if found := _NO_LETTER.search(text):
        raise NoLaunch(why=f"{found[0]!r} is no letter that an argument can hold")


def with_env(context: Context, env: dict[str, str]) -> Context:
    """Assignments before the command are part of the client's environment."""
    return replace(context, variables={**context.variables, **env}) if env else context


def read_shell(text: str, context: Context) -> tuple[Piece, ...]:
    """Launches and the steps before them, from shell text: comments, continuations, assignments, prose between.

    A step is recognised and never run. A line that is neither is a step of kind `other`, with the reason where it
    could not be read. Raises LaunchRefused for a launch that only a shell, or only its author's machine, could read.
    """
    _refuse_unreadable(text)
    return read_text(text, context)


def read_compose(text: str, context: Context) -> tuple[ContainerLaunch, ...]:
    """Every service of a compose file that serves a model, in order. `context.cwd` is the project's folder.

    Raises BadCompose, NoLaunch where no service does, UnknownVariable, UnknownDirectory, CliRejects.
    """
    _refuse_unreadable(text)
    return compose.read_text(text, context)
