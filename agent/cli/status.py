"""agentctl status: every deployment's state with its one-sentence reason."""

from __future__ import annotations

from agent.cli.connect import connect
from agent.cli.output import STATE_COLOURS, WARN, coloured, paint, print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("slug", nargs="?", metavar="SLUG", help="one deployment only")


def run(arguments: Namespace) -> int:
    client = connect(arguments)
    path = f"/v1/deployments/{quoted(arguments.slug)}" if arguments.slug else "/v1/deployments"
    found = client.get(path)
    deployments = [found] if arguments.slug else found
    if arguments.json:
        print_json(deployments)
        return 0
    colours = coloured(arguments)
    if not deployments and not arguments.quiet:
        print("nothing is deployed: agentctl deploy SLUG")
    for one in deployments:
        print(entry(one, colours, verbose=arguments.verbose or bool(arguments.slug)))
    return 0


def quoted(text: str) -> str:
    """A slug as a part of a path."""
    return "".join(
        c if c.isascii() and (c.isalnum() or c in "-._~") else "".join(f"%{b:02X}" for b in c.encode()) for c in text
    )


def entry(one: dict[str, Any], colours: bool, *, verbose: bool) -> str:
    """Two lines: which and where, then why; more for a single one."""
    state = paint(one["state"], STATE_COLOURS.get(one["state"], WARN), colours)
    mode = "" if one["supervision"] == "active" else f" ({one['supervision']})"
    where = f"  {one['endpoint']}" if one["endpoint"] else ""
    lines = [f"{one['slug']}  {state}{mode}{where}", f"  {one['why']} (since {one['since']})"]
    if verbose:
        from agent.cli.detail import detail

        lines += detail(one)
    return "\n".join(lines)
