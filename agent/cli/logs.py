"""agentctl logs: an engine's log, also of a container that is gone."""

from __future__ import annotations

import math
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
    parser.add_argument("slug", metavar="SLUG", help="the deployment")
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
    query += [f"since={since!r}"] if since is not None else []
    query += ["follow=1", "times=1"] if arguments.follow else []
    return f"/v1/deployments/{quoted(arguments.slug)}/logs" + (f"?{'&'.join(query)}" if query else "")


class Place:
    """Where a log was left. Lines of one moment share it, so those that were shown of the last moment are counted."""

    __slots__ = ("at", "count", "skip")

    def __init__(self) -> None:
        self.at: float | None = None
        self.count = self.skip = 0

    def take(self, line: str) -> str | None:
        """The line's text without its time; None for one that was shown before."""
        moment, _, text = line.partition(" ")
        if moment == "-":
            return text
        at = float(moment)
        if at == self.at and self.skip:
            self.skip -= 1
            return None
        self.skip = 0
        self.count = self.count + 1 if at == self.at else 1
        self.at = at
        return text

    def again(self, before: float | None) -> float | None:
        """After which moment to go on, `before` where nothing was shown yet; what was shown of it will be left out."""
        if self.at is None:
            return before
        self.skip = self.count
        return math.nextafter(self.at, 0.0)


def follow(arguments: Namespace, since: float | None) -> int:
    """Until interrupted; when the agent goes away, wait for it and go on with the line after the last one shown."""
    client, tail, place = connect(arguments), arguments.tail, Place()
    client.get(f"/v1/deployments/{quoted(arguments.slug)}")  # who asks for what is not there is told so
    begun = since if tail is None else time.time()
    while True:
        try:
            for line in client.lines(path_of(arguments, tail, since)):
                if (text := place.take(line)) is not None:
                    show(text)
                    sys.stdout.flush()
        except (Unreachable, OSError):
            pass
        tail, since = None, place.again(begun)
        time.sleep(1.0)


def show(line: str) -> None:
    """As the engine wrote it; a terminal does not get to see what would move its cursor."""
    if sys.stdout.isatty():
        print(line)
    else:
        raw(sys.stdout, f"{line}\n")


def moment(text: str) -> float:
    """Seconds of the epoch for a time or an age."""
    if text[-1:] in UNITS and text[:-1].replace(".", "", 1).isdecimal():
        return time.time() - float(text[:-1]) * UNITS[text[-1]]
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise UsageError(why=f"--since takes a time or an age such as 10m, not {text!r}") from None
