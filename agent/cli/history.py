"""agentctl history: the plans that a deployment has had, oldest first."""

from __future__ import annotations

from agent.cli.connect import connect
from agent.cli.output import coloured, print_json, table
from agent.cli.status import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("slug", metavar="SLUG", help="the deployment")


def run(arguments: Namespace) -> int:
    found = connect(arguments).get(f"/v1/deployments/{quoted(arguments.slug)}/history")
    if arguments.json:
        print_json(found)
        return 0
    rows = [(one["at"], one["plan_id"], word(one)) for one in found]
    print(table(rows, ("AT", "PLAN", ""), coloured(arguments)))
    return 0


def word(one: dict[str, Any]) -> str:
    """What became of a plan; one that never served is not gone back to unless it is named."""
    if one["current"]:
        return "current"
    return "served" if one["served"] else "never ready"
