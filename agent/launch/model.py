"""What a launch is, once read: a container body, a bare command line, or a step before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agent.launch.refusal import FileUnread, UnknownDirectory

FileReader = Callable[[str], str]
"""Text of a file of the client's, by its absolute path; raises `LookupError` with the reason where there is none."""


@dataclass(frozen=True, slots=True)
class LaunchWarning:
    """Something that the CLI accepts and that its author plainly did not mean.

    `code` is stable (`gpus.ids_lost`); `text` says what happens instead of what was meant; `instead` is the spelling
    that says it, empty where there is none.
    """

    code: str
    text: str
    instead: str = ""

    def __str__(self) -> str:
        return f"{self.text}; write {self.instead}" if self.instead else self.text


@dataclass(frozen=True, slots=True)
class ClientFlags:
    """What the client itself would have done with the container; none of it is in the body, save as a side effect."""

    detach: bool = False
    rm: bool = False
    interactive: bool = False
    tty: bool = False
    attach: tuple[str, ...] = ()
    pull: str = "missing"
    quiet: bool = False
    sig_proxy: bool = True
    detach_keys: str = ""
    cidfile: str = ""
    verb: str = "run"


@dataclass(frozen=True, slots=True)
class ContainerLaunch:
    """A container: `body` is what the CLI posts to `/containers/create`, `name` and `platform` its query."""

    name: str | None
    platform: str | None
    body: dict[str, Any]
    client: ClientFlags = ClientFlags()
    warnings: tuple[LaunchWarning, ...] = ()
    tool: str = "docker"
    text: str = ""


@dataclass(frozen=True, slots=True)
class CommandLaunch:
    """A bare command line: `argv` run with `env` added to the environment, in `cwd` (None: wherever it is run).

    `wrapper` holds words such as `sudo` or `nohup` that stood before the command and say nothing about the engine.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    warnings: tuple[LaunchWarning, ...] = ()
    wrapper: tuple[str, ...] = ()
    text: str = ""


LARGEST = 200_000
"""Letters of a launch that are read: the longest known has a twentieth of it."""

MOST_LAUNCHES = 200
"""Launches in one text; a page of documents has a few dozen."""


class StepKind(StrEnum):
    """What a line before the launch does."""

    GIT_CLONE = "git_clone"
    GIT_FETCH = "git_fetch"
    GIT_CHECKOUT = "git_checkout"
    GIT_APPLY = "git_apply"
    HF_DOWNLOAD = "hf_download"
    DOCKER_PULL = "docker_pull"
    DOCKER_BUILD = "docker_build"
    PIP_INSTALL = "pip_install"
    MKDIR = "mkdir"
    CHDIR = "chdir"
    EXPORT = "export"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class SetupStep:
    """A step that prepares a launch, recognised and never run by a shell.

    `facts` are its typed parts, by kind: `git_clone` url, directory, ref; `git_fetch` remote, ref; `git_checkout` ref;
    `git_apply` patches; `hf_download` repo, files, directory, revision; `docker_pull` image; `docker_build` tag,
    context, file; `pip_install` packages; `mkdir` paths; `chdir` path; `export` variables. `argv` is empty where the
    line could not be split into words; `why` then says so.
    """

    kind: StepKind
    argv: tuple[str, ...]
    facts: Mapping[str, Any]
    text: str
    cwd: str | None = None
    why: str = ""


Launch = ContainerLaunch | CommandLaunch
Piece = ContainerLaunch | CommandLaunch | SetupStep


def _no_file(path: str) -> str:
    raise LookupError("its text was not given")


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that a shell and the docker CLI would have taken from the author's machine.

    `variables` are the environment (`HOME` is what `~` means, `1`, `2`, … are a script's arguments); `substitutions`
    map a command to what it prints; `cwd` is where relative paths start and what `pwd` prints; `env_files` map a path,
    as written or absolute, to the file's text; `read_file` is asked for every other file that the CLI would open.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    substitutions: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    env_files: Mapping[str, str] = field(default_factory=dict)
    read_file: FileReader = _no_file

    def lookup(self, name: str) -> str | None:
        """The value of an environment variable; `PWD` is `cwd` unless it was given."""
        value = self.variables.get(name)
        return self.cwd if value is None and name == "PWD" else value

    def absolute(self, path: str) -> str:
        """`path` as the client would resolve it: against `cwd`, dots folded, symbolic links left alone."""
        if path.startswith("/"):
            return fold(path)
        if self.cwd is None:
            raise UnknownDirectory(word=path)
        return fold(f"{self.cwd}/{path}")

    def text_of(self, path: str, flag: str) -> str:
        """Text of a file that `flag` names. Raises FileUnread."""
        if path in self.env_files:
            return self.env_files[path]
        where = self.absolute(path)
        if where in self.env_files:
            return self.env_files[where]
        try:
            return self.read_file(where)
        except LookupError as error:
            raise FileUnread(flag=flag, path=path, why=error.args[0] if error.args else "there is none") from error


def fold(path: str) -> str:
    """An absolute path without `.`, `..`, doubled and trailing slashes, by its letters alone."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)
