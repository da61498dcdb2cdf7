"""What the CLI accepts in a whole command line although its author cannot have meant it; each with its reason."""

from __future__ import annotations

import re

from agent.launch.cli import CommandLine
from agent.launch.model import LaunchWarning

_PLACEHOLDER = re.compile(r"<[A-Za-z][A-Za-z0-9_ .:/-]*>|\{\{[^}]*\}\}")


def notices(line: CommandLine) -> list[LaunchWarning]:
    """All that is found, in a fixed order."""
    found: list[LaunchWarning] = []
    for check in (_flags_after_image, _host_network_ports, _bare_variables, _placeholders, _attached_value, _restart):
        found.extend(check(line))
    return found


def _flags_after_image(line: CommandLine) -> list[LaunchWarning]:
    """`docker run IMAGE --gpus all` hands `--gpus all` to the program in the container."""
    own = ("--gpus", "--shm-size", "--ipc", "--network", "--volume", "--publish", "--name", "--runtime", "--ulimit")
    late = [word for word in line.command if word.partition("=")[0] in own]
    if not late or line.command[:1] in (("bash",), ("sh",)):
        return []
    text = f"{late[0]} stands after the image {line.image}, so it goes to the program in the container, not to docker"
    return [LaunchWarning("flags.after_image", text, f"{late[0]} before {line.image}")]


def _host_network_ports(line: CommandLine) -> list[LaunchWarning]:
    given = line.given
    first = given["network"][0].target if given["network"] else ""
    if first != "host" or not given["publish"]:
        return []
    text = f"-p {line.written['publish'][0]} publishes nothing with --network host: the ports are the host's own"
    return [LaunchWarning("ports.host_network", text)]


def _bare_variables(line: CommandLine) -> list[LaunchWarning]:
    bare = [value for value in line.given["env"] if "=" not in value]
    return [
        LaunchWarning(
            "env.no_value",
            f"-e {name} takes its value from the caller, where it has none: Docker leaves the variable unset",
            f"{name}=VALUE among the variables",
        )
        for name in bare
    ]


def _placeholders(line: CommandLine) -> list[LaunchWarning]:
    words = [text for texts in line.written.values() for text in texts] + list(line.command)
    found = [found[0] for word in words if (found := _PLACEHOLDER.search(word))]
    return [
        LaunchWarning(
            "word.placeholder", f"{text} looks like a place to fill in, and is used as it is", "the real value"
        )
        for text in dict.fromkeys(found)
    ]


def _attached_value(line: CommandLine) -> list[LaunchWarning]:
    """`--privileged true IMAGE` takes `true` for the image."""
    if line.image in ("true", "false"):
        text = f"{line.image} is taken for the image: a switch has its value after an equals sign only"
        return [LaunchWarning("flags.switch_value", text, f"=…{line.image}, or the switch alone")]
    return []


def _restart(line: CommandLine) -> list[LaunchWarning]:
    name = line.given["restart"].partition(":")[0]
    if name in ("", "no", "always", "unless-stopped", "on-failure"):
        return []
    return [LaunchWarning("restart.unknown", f"--restart {name} is no policy that an engine knows", "--restart no")]
