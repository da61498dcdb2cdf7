"""agentctl incidents: the kept evidence."""

from __future__ import annotations

import os

from agent.cli.connect import connect
from agent.cli.output import BOLD, coloured, paint, print_json
from agent.cli.status import quoted
from agent.errors import AgentError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from agent.adapters.agent_client import Client


def add_arguments(parser: ArgumentParser) -> None:
    parser.usage = "agentctl incidents [SLUG] | show ID | export ID FILE.tar.gz"
    parser.add_argument("words", nargs="*", metavar="SLUG | show ID | export ID FILE", help="what to do")


def run(arguments: Namespace) -> int:
    client = connect(arguments)
    match arguments.words:
        case ["show", key]:
            return show(arguments, client.get(f"/v1/incidents/{quoted(key)}"))
        case ["export", key, file]:
            return export(arguments, client, key, file)
        case [word] if word in ("show", "export"):
            raise UsageError(why=f"incidents {word} takes an ID{' and a file' if word == 'export' else ''}")
        case [] | [_]:
            return listing(arguments, client)
        case _:
            raise UsageError(why="incidents takes nothing, SLUG, show ID, or export ID FILE.tar.gz")


def listing(arguments: Namespace, client: Client) -> int:
    query = f"?slug={quoted(arguments.words[0])}" if arguments.words else ""
    found = client.get(f"/v1/incidents{query}")
    if arguments.json:
        print_json(found)
    elif found:
        for one in found:
            print(f"{paint(one['id'], BOLD, coloured(arguments))}\n  {one['kind']} at {one['at']}: {one['why']}")
    elif not arguments.quiet:
        print("no incidents are kept" + (f" of {arguments.words[0]}" if arguments.words else ""))
    return 0


def show(arguments: Namespace, one: dict[str, Any]) -> int:
    if arguments.json:
        print_json(one)
        return 0
    print(f"{one['id']}\n  {one['why']}\n  at {one['at']}, generation {one['generation']}, plan {one['plan_id']}")
    for line in one.get("verdict", {}).get("evidence", ()):
        print(f"  evidence: {line}")
    for name, size in one["evidence"].items():
        print(f"  {name}  {size:,} bytes")
    for name, why in one["missing"].items():
        print(f"  {name}  missing: {why}")
    return 0


def export(arguments: Namespace, client: Client, key: str, file: str) -> int:
    """Write the archive, whole or not at all."""
    data = client.raw(f"/v1/incidents/{quoted(key)}/export")
    partial = f"{file}.partial"
    try:
        with open(partial, "wb") as out:  # noqa: PTH123
            out.write(data)
        os.replace(partial, file)  # noqa: PTH105
    except OSError as error:
        raise AgentError(f"cannot write {file}: {error.strerror or error}", advice="choose another path") from error
    if arguments.json:
        print_json({"id": key, "file": file, "bytes": len(data)})
    elif not arguments.quiet:
        print(f"{file}  {len(data):,} bytes")
    return 0
