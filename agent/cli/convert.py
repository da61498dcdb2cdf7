"""`agentctl convert`: a launch in one form to another, from the given variables alone. Needs no daemon."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent.launch.model import CommandLaunch, ContainerLaunch, Context, Launch

FORMS = ("docker-run", "argv", "shell", "compose")
TARGETS = ("engine-api", "docker-run")
LARGEST = 5 * 1024 * 1024
"""Bytes of input that are read; a launch has a few thousand."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("file", metavar="FILE", help="the launch; - reads standard input")
    parser.add_argument("--from", dest="source", choices=FORMS, help="the form FILE is in (found out by itself)")
    parser.add_argument("--to", dest="target", choices=TARGETS, required=True, help="the form to print")
    parser.add_argument(
        "--env-file", metavar="VARS", action="append", default=[], help="NAME=VALUE lines: all variables"
    )
    parser.add_argument("--cwd", metavar="DIR", help="where relative paths start and what pwd prints")
    parser.add_argument(
        "--substitute", metavar="COMMAND=VALUE", action="append", default=[], help="what a $(COMMAND) prints"
    )


def run(arguments: argparse.Namespace) -> int:
    """Convert and print. Raises LaunchRefused (exit 3), InvalidInput, UsageError."""
    text = _text(arguments.file)
    launches = _launches(text, arguments.file, arguments.source, _context(arguments))
    as_json = getattr(arguments, "output", "text") == "json"
    if arguments.target == "engine-api":
        _print_json([_engine_api(launch) for launch in launches])
    else:
        _print_docker_run(launches, as_json=as_json)
    return 0


def _text(name: str) -> str:
    import sys

    return _decoded(sys.stdin.buffer.read(LARGEST + 1) if name == "-" else _bytes(name), name)


def _bytes(name: str) -> bytes:
    from pathlib import Path

    from agent.errors import InvalidInput

    try:
        with Path(name).open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise InvalidInput(what=name, why=error.strerror or str(error)) from error


def _decoded(raw: bytes, name: str) -> str:
    from agent.errors import InvalidInput

    if len(raw) > LARGEST:
        raise InvalidInput(what=name, why=f"it has more than {LARGEST // 1024 // 1024} MiB")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(what=name, why=f"it is no UTF-8 text (byte {error.start})") from error
    if "\0" in text:
        raise InvalidInput(what=name, why="it holds a NUL byte")
    return text.replace("\r\n", "\n")


def _context(arguments: argparse.Namespace) -> Context:
    from pathlib import Path

    from agent.launch.model import Context

    variables: dict[str, str] = {}
    for name in arguments.env_file:
        variables |= _variables(name)
    cwd = arguments.cwd
    if cwd is not None and not cwd.startswith("/"):
        cwd = str(Path.cwd() / cwd)
    return Context(variables, _substitutions(arguments.substitute), cwd, {}, _read_file)


def _variables(name: str) -> dict[str, str]:
    """`NAME=VALUE` lines as they are: no quotes, no expansion; a name alone has no value here."""
    from agent.errors import InvalidInput
    from agent.launch.flags.environment import lines
    from agent.launch.golang import Malformed

    try:
        entries = lines(_text(name))
    except Malformed as error:
        raise InvalidInput(what=name, why=str(error)) from error
    return dict(entry.split("=", 1) for entry in entries)


def _substitutions(given: Sequence[str]) -> dict[str, str]:
    """Every way to part COMMAND=VALUE: a command may have equals signs of its own, and the launch says which it is."""
    from agent.errors import UsageError

    out: dict[str, str] = {}
    for text in given:
        if "=" not in text:
            raise UsageError(why=f"--substitute {text!r} is not COMMAND=VALUE")
        for at, char in enumerate(text):
            if char == "=":
                out.setdefault(text[:at].strip(), text[at + 1 :])
    return out


def _read_file(path: str) -> str:
    """A file that the docker client would open. Raises LookupError with the reason."""
    from pathlib import Path

    try:
        with Path(path).open("rb") as file:
            raw = file.read(LARGEST + 1)
        if len(raw) > LARGEST:
            raise LookupError("it is too large")
        return raw.decode()
    except OSError as error:
        raise LookupError(error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise LookupError("it is no UTF-8 text") from error


def _launches(text: str, name: str, source: str | None, context: Context) -> list[Launch]:
    from agent.launch.model import SetupStep
    from agent.launch.read import read_argv, read_compose, read_shell
    from agent.launch.refusal import NoLaunch

    form = source or _form(text, name)
    if form == "argv":
        return [read_argv(words, context) for words in _word_lists(text, name)]
    pieces = read_compose(text, _beside(name, context)) if form == "compose" else read_shell(text, context)
    launches = [piece for piece in pieces if not isinstance(piece, SetupStep)]
    if form == "docker-run":
        launches = [launch for launch in launches if _is_container(launch)]
    if not launches:
        steps = [{"kind": step.kind, "text": step.text, **step.facts} for step in pieces if isinstance(step, SetupStep)]
        found = (
            f"only steps that prepare one ({', '.join(sorted({step['kind'] for step in steps}))})"
            if steps
            else "nothing"
        )
        raise NoLaunch(why=f"{name} holds {found}, and no launch", steps=steps)
    return launches


def _beside(name: str, context: Context) -> Context:
    """Compose takes a file's own folder for the project's, unless it is told another."""
    from dataclasses import replace
    from pathlib import Path

    return replace(context, cwd=str(Path(name).absolute().parent)) if context.cwd is None and name != "-" else context


def _is_container(launch: Launch) -> bool:
    from agent.launch.model import ContainerLaunch

    return isinstance(launch, ContainerLaunch)


def _form(text: str, name: str) -> str:
    """What the text looks like."""
    import re

    start = text.lstrip()
    if start.startswith("["):
        return "argv"
    if start.startswith("{") and (form := _object_form(text, name)):
        return form
    if re.search(r"^services:(\s|$)", text, re.MULTILINE):
        return "compose"
    return "compose" if name.endswith((".yaml", ".yml")) else "shell"


def _object_form(text: str, name: str) -> str:
    """A JSON object is a compose file or no launch at all; empty for what only looks like one (a shell's group).

    Raises OtherDocument."""
    import json

    from agent.launch.refusal import OtherDocument

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if "services" in value:
        return "compose"
    for keys, why, how in _OTHERS:
        if keys & value.keys():
            raise OtherDocument(name=name, why=why, how=how.format(file="FILE" if name == "-" else name))
    how = "expected are a docker run command, a compose file, a bare command line or a JSON list of words"
    raise OtherDocument(name=name, why="it is a JSON object that is no launch", how=how)


_OTHERS = (
    (
        {"plan_id"},
        "it is a plan already",
        "its container.body is what goes to the Engine: agentctl plan SLUG --output json shows it",
    ),
    (
        {"body", "Image", "HostConfig"},
        "it is a body of the Engine's API already",
        "POST it to /containers/create as it is",
    ),
    (
        {"slug", "config", "perf_points", "engine_source"},
        "it is a recipe already",
        "agentctl plan {file} shows what would run, agentctl deploy {file} runs it; the lines of its config.launch can "
        "be converted",
    ),
)
"""Keys of other documents → what it is, and who takes it; a plan has a recipe's keys too."""


def _word_lists(text: str, name: str) -> list[list[str]]:
    """A JSON list of words, or a list of such lists."""
    import json

    from agent.errors import InvalidInput

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(what=name, why=f"it is no JSON list of words ({error})") from error
    lists = value if isinstance(value, list) and value and all(isinstance(item, list) for item in value) else [value]
    for words in lists:
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise InvalidInput(what=name, why="an argument list is a JSON list of strings")
        if any("\0" in word for word in words):
            raise InvalidInput(what=name, why="a word holds a NUL byte")
    return lists


def _engine_api(launch: Launch) -> dict[str, Any]:
    from agent.launch.model import ContainerLaunch

    if isinstance(launch, ContainerLaunch):
        return _document(launch.name, launch.platform, launch.body, [str(warning) for warning in launch.warnings])
    return _command(launch)


def _document(name: str | None, platform: str | None, body: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    return {"name": name, "platform": platform, "body": body, "warnings": warnings}


def _command(launch: CommandLaunch) -> dict[str, Any]:
    """A bare command line: what a container of it would run. No image is named, so none is in the body."""
    body: dict[str, Any] = {"Cmd": list(launch.argv), "Env": [f"{name}={value}" for name, value in launch.env.items()]}
    warnings = [str(warning) for warning in launch.warnings]
    warnings.append("a bare command line names no image: the body is complete only with an Image")
    command = {"argv": list(launch.argv), "env": launch.env, "cwd": launch.cwd, "wrapper": list(launch.wrapper)}
    return {**_document(None, None, body, warnings), "command": command}


def _print_json(documents: list[dict[str, Any]]) -> None:
    from agent.cli.output import print_json

    print_json(documents[0] if len(documents) == 1 else documents)


def _print_docker_run(launches: Sequence[Launch], *, as_json: bool) -> None:
    from agent.launch.write import as_line

    commands = [(launch, _words(launch)) for launch in launches]
    if as_json:
        _print_json(
            [{"argv": words, "warnings": [str(item) for item in launch.warnings]} for launch, words in commands]
        )
        return
    for _, words in commands:
        print(as_line(words))


def _words(launch: ContainerLaunch | CommandLaunch) -> list[str]:
    from agent.launch.model import ContainerLaunch
    from agent.launch.refusal import NotCarried
    from agent.launch.write import to_docker_run

    if isinstance(launch, ContainerLaunch):
        return to_docker_run(launch)
    why = "it names no image, and docker run needs one"
    raise NotCarried(
        word=" ".join(launch.argv)[:60], why=why, how="name an image before the command, or run it as it is"
    )
