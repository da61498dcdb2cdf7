"""A container body back into a `docker run` command line: what the CLI makes of it is the same body again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agent.launch import cli
from agent.launch.body import launch_of
from agent.launch.equal import differing
from agent.launch.flags.environment import last_wins
from agent.launch.model import ClientFlags, ContainerLaunch, Context
from agent.launch.refusal import LaunchRefused, NotCarried
from agent.launch.writing import devices, networks, plain

_HOW = "use --to engine-api, which carries everything"


def to_docker_run(launch: ContainerLaunch) -> list[str]:
    """The command line as words. Raises NotCarried where the CLI has no words for a part of the body.

    The words are read again before they are handed out, so that nothing can be lost on the way.
    """
    body, host = launch.body, launch.body.get("HostConfig") or {}
    if any(str(option).startswith("seccomp={") for option in host.get("SecurityOpt") or []):
        raise NotCarried(
            word="a seccomp profile", why="docker run takes it from a file, and here is its text", how=_HOW
        )
    words = ["docker", "run", *_flags(launch, body, host), str(body.get("Image") or "")]
    words += [*_late_entrypoint(body), *(body.get("Cmd") or [])]
    _prove(launch, words)
    return words


def as_line(words: list[str]) -> str:
    """Words as one shell line, quoted where a shell would read something else."""
    return " ".join(shlex.quote(word) for word in words)


def _flags(launch: ContainerLaunch, body: Mapping[str, Any], host: Mapping[str, Any]) -> Iterator[str]:
    yield from _client(launch.client, body, host)
    if launch.name:
        yield from ("--name", launch.name)
    if launch.platform:
        yield from ("--platform", launch.platform)
    yield from devices.flags(host)
    yield from networks.flags(body, host)
    yield from plain.flags(body, host)
    for value in last_wins(list(body.get("Env") or [])):
        yield from ("-e", value)
    if entrypoint := body.get("Entrypoint"):
        yield from ("--entrypoint", str(entrypoint[0]))


def _client(client: ClientFlags, body: Mapping[str, Any], host: Mapping[str, Any]) -> Iterator[str]:
    """Flags of the client itself, as far as they can be read off the body."""
    attached = [name for name in ("Stdin", "Stdout", "Stderr") if body.get(f"Attach{name}")]
    if not attached:
        yield "-d"
    elif set(attached) - {"Stdin"} != {"Stdout", "Stderr"} or ("Stdin" in attached and not body.get("OpenStdin")):
        for name in attached:
            yield from ("-a", name.lower())
    if body.get("OpenStdin"):
        yield "-i"
    if body.get("Tty"):
        yield "-t"
    if host.get("AutoRemove"):
        yield "--rm"
    if client.pull != "missing":
        yield from ("--pull", client.pull)
    if host.get("ContainerIDFile"):
        yield from ("--cidfile", str(host["ContainerIDFile"]))


def _late_entrypoint(body: Mapping[str, Any]) -> list[str]:
    """`--entrypoint` takes one word; the rest of it stands before the command, which runs the same program."""
    entrypoint = body.get("Entrypoint") or []
    return [str(word) for word in entrypoint[1:]]


def _prove(launch: ContainerLaunch, words: list[str]) -> None:
    try:
        again = launch_of(cli.parse(words, Context()), Context())
    except LaunchRefused as error:
        raise NotCarried(
            word=f"docker run cannot say it ({error.text})", why="its CLI refuses the words", how=_HOW
        ) from error
    wanted = replace(launch, body=_comparable(launch.body))
    found = differing(wanted.body, _comparable(again.body))
    found += ["platform"] if again.platform != launch.platform else []
    found += ["name"] if again.name != launch.name else []
    if found:
        raise NotCarried(word=", ".join(found), why="docker run has no flag that says it", how=_HOW)


def _comparable(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body with one entry a variable and the whole command in one list: what the container is."""
    entrypoint = body.get("Entrypoint") or []
    command = [*entrypoint[1:], *(body.get("Cmd") or [])]
    return {**body, "Env": last_wins(list(body.get("Env") or [])), "Entrypoint": entrypoint[:1], "Cmd": command}
