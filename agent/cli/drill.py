"""agentctl drill: a rehearsal of a fault, for a deployment that is marked as expendable."""

from __future__ import annotations

import sys

from agent.cli.connect import connect
from agent.cli.output import print_json
from agent.cli.status import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from agent.adapters.agent_client import Client

KINDS = ("stall", "zombie", "crash", "slow-start")
POLL_S = 2


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("kind", metavar="|".join(KINDS), choices=KINDS, help="what is rehearsed")
    parser.add_argument("slug", metavar="SLUG", help="the deployment; its profile says expendable: true")


def run(arguments: Namespace) -> int:
    client = connect(arguments)
    path = f"/v1/deployments/{quoted(arguments.slug)}/drill"
    operation = follow(arguments, client, client.call("POST", path, {"kind": arguments.kind}))
    if arguments.json:
        print_json({key: operation[key] for key in ("id", "slug", "state", "error")} | operation["progress"])
    elif not arguments.quiet and not operation["error"]:
        print(operation["progress"]["text"])
    if operation["error"]:
        from agent.adapters.agent_client import ApiError

        raise ApiError(operation["error"])
    return 0


def follow(arguments: Namespace, client: Client, operation: dict[str, Any]) -> dict[str, Any]:
    """Each mark as it comes; Ctrl-C ends the drill and heals what it stopped."""
    shown = 0
    try:
        while True:
            marks = operation["progress"].get("timeline", [])
            if not arguments.json and not arguments.quiet:
                for mark in marks[shown:]:
                    print(f"{mark['at']:8.1f} s  {mark['what']:<13}  {mark['text']}", flush=True)
            shown = max(shown, len(marks))
            if operation["state"] != "running":
                return operation
            operation = client.get(f"/v1/operations/{operation['id']}?wait={POLL_S}")
    except KeyboardInterrupt:
        client.call("POST", f"/v1/operations/{operation['id']}/cancel", {})
        print("cancelled; what it stopped goes on", file=sys.stderr)
        raise
