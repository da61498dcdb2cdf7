"""Where the agent is, by the options, the environment and the site file."""

from __future__ import annotations

import os
import re

from agent.adapters.agent_client import Client, Target
from agent.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

DEFAULT_CONFIG = "/etc/recipe-agent/agent.yaml"
DEFAULT_SOCKET = "/run/recipe-agent/agent.sock"


def connect(arguments: Namespace, timeout_s: float = 75.0) -> Client:
    """A client for the agent that the options name."""
    return Client(target(arguments), timeout_s)


def target(arguments: Namespace) -> Target:
    if arguments.url:
        return url_target(arguments.url)
    return Target(arguments.socket or os.environ.get("RECIPE_AGENT_SOCKET") or site_socket(arguments))


def url_target(url: str) -> Target:
    """`http://host[:port]`; the token comes from RECIPE_AGENT_TOKEN, so that it stands in no command line."""
    found = re.fullmatch(r"http://(\[[0-9a-fA-F:]+\]|[^\s/:\[\]]+)(?::(\d{1,5}))?/?", url)
    if found is None:
        raise UsageError(why=f"--url takes http://host:port, not {url!r}")
    host, port = found[1].strip("[]"), int(found[2] or 9465)
    return Target(None, host, port, os.environ.get("RECIPE_AGENT_TOKEN", ""))


def site_socket(arguments: Namespace) -> str:
    """The socket of the site file. The file is parsed only where it names one: that would double the start."""
    named = arguments.config or os.environ.get("RECIPE_AGENT_CONFIG")
    if not mentions_socket(named or DEFAULT_CONFIG):
        return DEFAULT_SOCKET
    from agent.cli.site import settings_of

    return str(settings_of(arguments).paths.socket)


def mentions_socket(path: str) -> bool:
    """Whether the site file or a file of its conf.d has a line that sets `socket`."""
    folder = os.path.join(os.path.dirname(path), "conf.d")  # noqa: PTH118, PTH120 - pathlib doubles the start
    try:
        more = [os.path.join(folder, name) for name in os.listdir(folder)]  # noqa: PTH118, PTH208
    except OSError:
        more = []
    return any(has_line(file) for file in (path, *more))


def has_line(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return re.search(rb"(?m)^\s*[^#\n]*\bsocket\b", file.read(1 << 20)) is not None
    except OSError:
        return False
