"""agentctl stop, start, restart, remove, pause, observe, resume."""

from __future__ import annotations

from agent.adapters.agent_client import ApiError
from agent.cli.connect import connect
from agent.cli.deploy import GoesOn, follow
from agent.cli.output import Progress, print_json
from agent.cli.status import entry, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from agent.adapters.agent_client import Client

AT_ONCE = frozenset({"pause", "observe", "resume"})


def add_arguments(parser: ArgumentParser) -> None:
    command = parser.prog.split()[-1]
    parser.add_argument("slug", metavar="SLUG", help="the deployment")
    if command in ("stop", "restart", "remove"):
        parser.add_argument(
            "--drain", type=float, metavar="SECONDS", help="wait for clients for at most so long before TERM"
        )
    if command == "restart":
        parser.add_argument("--in-window", action="store_true", help="in the site's next maintenance window")
    if command == "start":
        parser.add_argument("--force", action="store_true", help="also a failed or quarantined one, once it is mended")


def run(arguments: Namespace) -> int:
    client, command = connect(arguments), arguments.command
    body = {"drain_s": getattr(arguments, "drain", None), "force": getattr(arguments, "force", False)}
    if getattr(arguments, "in_window", False):
        body["in_window"] = True
    path = f"/v1/deployments/{quoted(arguments.slug)}"
    if command == "remove":
        answer = client.call("DELETE", path, body)
    else:
        answer = client.call("POST", f"{path}/{command}", body)
    if command in AT_ONCE:
        return tell(arguments, answer)
    progress = Progress(arguments)
    with GoesOn(arguments, arguments.slug, progress):
        follow(client, answer, progress)
    return show(arguments, client, path)


def show(arguments: Namespace, client: Client, path: str) -> int:
    """What the deployment is now."""
    one: dict[str, Any] | None
    try:
        one = client.get(path)
    except ApiError as error:
        if error.kind != "not_found":
            raise
        one = None
    return tell(arguments, one)


def tell(arguments: Namespace, one: dict[str, Any] | None) -> int:
    """The deployment as the agent answered, None where it is gone."""
    if arguments.json:
        print_json(one if one is not None else {"slug": arguments.slug, "state": "removed"})
    elif not arguments.quiet:
        print(entry(one, False, verbose=False) if one is not None else f"{arguments.slug} was removed")
    return 0
