"""Where the agent is, by the options, the environment and the site file."""

from __future__ import annotations

import os
import re

from agent.adapters.agent_client import Client, Target, Tls
from agent.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

DEFAULT_CONFIG = "/etc/recipe-agent/agent.yaml"
DEFAULT_SOCKET = "/run/recipe-agent/agent.sock"
PATH = r"""["']?(/[\w./+@-]+)["']?[ ]*(?=[,}\n]|$)"""
"""A path that YAML takes as it stands."""


def connect(arguments: Namespace, timeout_s: float = 75.0) -> Client:
    """A client for the agent that the options name."""
    return Client(target(arguments), timeout_s)


def target(arguments: Namespace) -> Target:
    if arguments.url:
        return url_target(arguments.url)
    override = os.environ.get("RECIPE_AGENT_SOCKET") or os.environ.get("RECIPE_AGENT_PATHS__SOCKET")
    return Target(arguments.socket or override or site_socket(arguments))


def url_target(url: str) -> Target:
    """`http[s]://host[:port]`; the token comes from RECIPE_AGENT_TOKEN, so that it stands in no command line.

    For HTTPS, RECIPE_AGENT_CA, RECIPE_AGENT_CERTIFICATE and RECIPE_AGENT_KEY name files (PEM).
    """
    found = re.fullmatch(r"http(s?)://(\[[0-9a-fA-F:]+\]|[^\s/:\[\]]+)(?::(\d{1,5}))?/?", url)
    if found is None:
        raise UsageError(why=f"--url takes http://host:port or https://host:port, not {url!r}")
    host, port = found[2].strip("[]"), int(found[3] or 9465)
    files = [os.environ.get(f"RECIPE_AGENT_{name}", "") for name in ("CA", "CERTIFICATE", "KEY")]
    return Target(None, host, port, os.environ.get("RECIPE_AGENT_TOKEN", ""), Tls(*files) if found[1] else None)


def site_socket(arguments: Namespace) -> str:
    """The socket of the site file, parsed only where a look does not tell: parsing takes a third of a second."""
    main = arguments.config or os.environ.get("RECIPE_AGENT_CONFIG") or DEFAULT_CONFIG
    texts = [text for file in site_files(main) if "socket" in (text := text_of(file))]
    if not texts:
        return DEFAULT_SOCKET
    if len(texts) == 1 and (plain := plain_socket(texts[0])) is not None:
        return plain
    from agent.cli.site import settings_of

    return str(settings_of(arguments).paths.socket)


def site_files(main: str) -> list[str]:
    """The site file and those of its conf.d."""
    folder = os.path.join(os.path.dirname(main), "conf.d")  # noqa: PTH118, PTH120 - pathlib doubles the start
    try:
        return [main, *(os.path.join(folder, name) for name in sorted(os.listdir(folder)))]  # noqa: PTH118, PTH208
    except OSError:
        return [main]


def text_of(path: str) -> str:
    """Without its comment lines; nothing where it cannot be read: whoever needs it says so."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return "".join(line for line in file if not line.lstrip().startswith("#"))
    except OSError:
        return ""


def plain_socket(text: str) -> str | None:
    """`paths.socket` where the text says it plainly: one such key, in the block of `paths` or in its braces.

    Anything else (anchors, other keys of that name, values over lines) is for the parser: None.
    """
    keys = re.findall(r"(?m)(?<![\w.-])socket[\"']?\s*:", text)
    found = re.findall(
        rf"(?m)^paths:\s*(?:\{{[^{{}}\n]*?\bsocket:\s*{PATH}|\n(?:[ ]+.*\n)*?[ ]+socket:\s*{PATH})", text
    )
    if len(keys) != 1 or len(found) != 1:
        return None
    path: str = next(path for path in found[0] if path)
    return path
