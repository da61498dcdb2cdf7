"""agentctl notify test: one message to every service that the site file names."""

from __future__ import annotations

from agent.cli.connect import connect
from agent.cli.output import BAD, GOOD, coloured, paint, print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("what", metavar="test", choices=("test",), help="send a test to every service, now and once")


def run(arguments: Namespace) -> int:
    """1 when one of them did not take it."""
    told = connect(arguments).call("POST", "/v1/notifications/test")
    if arguments.json:
        print_json(told)
    else:
        colours = coloured(arguments)
        for one in told:
            word = paint("taken", GOOD, colours) if one["taken"] else paint(f"not taken: {one['why']}", BAD, colours)
            print(f"{one['service']}: {word}")
    return 0 if all(one["taken"] for one in told) else 1
