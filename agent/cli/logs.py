"""agentctl logs: an engine's log, also of a container that is gone."""

from __future__ import annotations

import sys
import time

from agent.cli.connect import connect
from agent.cli.output import print_json
from agent.cli.screen import raw
from agent.cli.status import quoted
from agent.errors import Unreachable, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("slug", help="the deployment")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on as it is written, over restarts of the agent"
    )
    parser.add_argument("--tail", type=int, metavar="N", help="the last N lines only")
    parser.add_argument("--since", metavar="T", help="a time (2026-11-30T03:00:00) or an age (10m, 2h)")


def run(arguments: Namespace) -> int:
    since = moment(arguments.since) if arguments.since else None
    if not arguments.follow:
        lines = list(connect(arguments).lines(path_of(arguments, arguments.tail, since)))
        if arguments.json:
            print_json(lines)
        for line in lines if not arguments.json else ():
            show(line)
        return 0
    return follow(arguments, since)


def path_of(arguments: Namespace, tail: int | None, since: float | None) -> str:
    query = [f"tail={tail}"] if tail is not None else []
    query += [f"since={since}"] if since is not None else []
    query += ["follow=1"] if arguments.follow else []
    return f"/v1/deployments/{quoted(arguments.slug)}/logs" + (f"?{'&'.join(query)}" if query else "")


def follow(arguments: Namespace, since: float | None) -> int:
    """Until interrupted; when the agent goes away, wait for it and go on from there."""
    client, tail, seen = connect(arguments), arguments.tail, False
    while True:
        try:
            for line in client.lines(path_of(arguments, tail, since)):
                show(line)
                sys.stdout.flush()
                seen = True
        except Unreachable:
            if not seen:
                raise
        except OSError:
            pass
        tail, since = None, time.time()
        time.sleep(1.0)


def show(line: str) -> None:
    """As the engine wrote it; a terminal does not get to see what would move its cursor."""
    if sys.stdout.isatty():
        print(line)
    else:
        raw(sys.stdout, f"{line}\n")


def moment(text: str) -> float:
    """Seconds of the epoch for a time or an age."""
    if text[-1:] in UNITS and text[:-1].replace(".", "", 1).isdigit():
        return time.time() - float(text[:-1]) * UNITS[text[-1]]
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise UsageError(why=f"--since takes a time or an age such as 10m, not {text!r}") from None
