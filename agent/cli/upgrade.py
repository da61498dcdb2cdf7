"""agentctl upgrade, rollback: to the newest revision of a recipe, and back to an earlier plan."""

from __future__ import annotations

import sys

from agent.cli.connect import connect
from agent.cli.deploy import GIVEN_UP, GoesOn, follow
from agent.cli.lifecycle import show
from agent.cli.output import Progress
from agent.cli.status import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("slug", metavar="SLUG", help="the deployment")
    if parser.prog.split()[-1] == "rollback":
        parser.add_argument("plan", nargs="?", metavar="PLAN", help="its id (agentctl history); else the one before")
    else:
        parser.add_argument("--now", action="store_true", help="do not wait for a maintenance window")


def run(arguments: Namespace) -> int:
    client = connect(arguments)
    path = f"/v1/deployments/{quoted(arguments.slug)}"
    body = {"plan_id": arguments.plan} if arguments.command == "rollback" else {"now": arguments.now}
    before = client.get(path)
    operation = client.call("POST", f"{path}/{arguments.command}", body)
    progress = Progress(arguments)
    with GoesOn(arguments, arguments.slug, progress):
        follow(client, operation, progress)
    if operation["plan_id"] == before["plan_id"] and before["state"] not in GIVEN_UP and not quiet(arguments):
        print(f"nothing changes: {arguments.slug} has this plan already", file=sys.stderr)
    return show(arguments, client, path)


def quiet(arguments: Namespace) -> bool:
    return bool(arguments.quiet or arguments.json)
