"""The container's own half of a create body: image, command, environment, streams."""

from __future__ import annotations

from typing import Any

from agent.launch.cli import CommandLine
from agent.launch.flags import environment, health, ports, volumes
from agent.launch.flags.kinds import Given, pairs
from agent.launch.flags.ports import Published
from agent.launch.model import Context


def config(line: CommandLine, context: Context, published: list[Published]) -> dict[str, Any]:
    """`Config`, whose keys stand at the top of the body. Raises Malformed, FileUnread."""
    given = line.given
    _, anonymous = volumes.split(given.list("volume"), context)
    attach = _attached(line)
    out: dict[str, Any] = {
        "Hostname": given["hostname"],
        "Domainname": given["domainname"],
        "User": given["user"],
        **attach,
        "ExposedPorts": _exposed(given, published),
        "Tty": given["tty"],
        "OpenStdin": given["interactive"],
        "StdinOnce": given["interactive"] and attach["AttachStdin"],
        "Env": _env(given, context) or None,
        "Cmd": list(line.command) or None,
        "Healthcheck": health.check(given),
        "Image": line.image,
        "Volumes": anonymous,
        "WorkingDir": given["workdir"],
        "Entrypoint": [given["entrypoint"]] if "entrypoint" in given.changed else None,
        "OnBuild": None,
        "Labels": pairs([*environment.from_files(given["label-file"], "--label-file", context, None), *given["label"]]),
        "StopSignal": given["stop-signal"],
        "StopTimeout": given["stop-timeout"] if "stop-timeout" in given.changed else None,
    }
    for key in ("ExposedPorts", "Healthcheck", "StopSignal", "StopTimeout"):
        if out[key] is None or out[key] in ({}, ""):
            del out[key]
    return out


def _attached(line: CommandLine) -> dict[str, bool]:
    """Which streams the client would have attached to: all but stdin, unless it was told otherwise."""
    given = line.given
    streams = given.list("attach")
    if line.verb == "run" and given.on("detach"):
        return {"AttachStdin": False, "AttachStdout": False, "AttachStderr": False}
    attach = {name: stream in streams for name, stream in _STREAMS.items()}
    if not streams:
        attach |= {"AttachStdout": True, "AttachStderr": True}
    if given.on("interactive"):
        attach["AttachStdin"] = True
    return attach


_STREAMS = {"AttachStdin": "stdin", "AttachStdout": "stdout", "AttachStderr": "stderr"}


def _exposed(given: Given, published: list[Published]) -> dict[str, dict[str, str]]:
    exposed = {port.container for port in published}
    for spec in given["expose"]:
        exposed.update(ports.expose(spec))
    return {port: {} for port in sorted(exposed)}


def _env(given: Given, context: Context) -> list[str]:
    files = environment.from_files(given["env-file"], "--env-file", context, context.lookup)
    return [*files, *environment.last_wins(given["env"])]
