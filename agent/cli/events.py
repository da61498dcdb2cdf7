"""agentctl events: what the agent saw and did, and why."""

from __future__ import annotations

from agent.cli.connect import connect
from agent.cli.status import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("slug", nargs="?", metavar="SLUG", help="one deployment only")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as they come")
    parser.add_argument("--limit", type=int, default=200, metavar="N", help="how many past ones (default 200)")


def run(arguments: Namespace) -> int:
    client = connect(arguments)
    query = f"limit={arguments.limit}" + (f"&slug={quoted(arguments.slug)}" if arguments.slug else "")
    past = client.get(f"/v1/events?follow=0&{query}")
    if arguments.json and not arguments.follow:
        from agent.cli.output import print_json

        print_json(past)
        return 0
    told: dict[str, str] = {}
    for event in past:
        show(arguments, event, told)
    if arguments.follow:
        after = past[-1]["seq"] if past else 0
        for event in client.events(f"/v1/events?after={after}&{query}"):
            show(arguments, event, told)
    return 0


def show(arguments: Namespace, event: dict[str, Any], told: dict[str, str]) -> None:
    """One line; with `-o json -f` one object a line. `told`: what was last said of each deployment.

    A step that says no more than the state that it was taken in is left out of the text.
    """
    if arguments.json:
        from agent.cli.output import json_text

        print(json_text(event), flush=True)
        return
    again = event["kind"] == "step" and told.get(event["slug"]) == event["text"]
    told[event["slug"]] = event["text"]
    if again:
        return
    slug = "" if arguments.slug else f"{event['slug']}  "
    moved = event["data"].get("to") if event["kind"] == "state" else event["kind"]
    print(f"{event['at']}  {slug}{moved}: {event['text']}", flush=True)
