"""agentctl version."""

from __future__ import annotations

from agent.cli.output import print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = "The daemon's own version is in the metric recipe_agent_build_info."


def run(arguments: Namespace) -> int:
    import platform

    from agent.version import VERSION

    if arguments.json:
        print_json({"version": VERSION, "python": platform.python_version()})
    else:
        print(f"recipe-agent {VERSION}")
    return 0
