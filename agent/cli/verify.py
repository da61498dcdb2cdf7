"""agentctl verify: measure the running engine and hold it against its recipe's claims."""

from __future__ import annotations

import sys

from agent.cli.connect import connect
from agent.cli.output import BAD, GOOD, Progress, coloured, paint, print_json, table
from agent.cli.status import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from agent.adapters.agent_client import Client

POLL_S = 5
LOW = 0.9
HEAD = ("POINT", "METRIC", "MEASURED", "SPREAD", "CLAIMED", "RATIO")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("slug", metavar="SLUG", help="the deployment")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="one repeat, and nothing beyond 32,768 tokens or 8 requests")
    how.add_argument("--full", action="store_true", help="all repeats of all points, as without --quick; see --last")
    parser.add_argument(
        "--points", action="append", default=[], metavar="WORD", help="only points whose name has this word"
    )
    parser.add_argument(
        "--last", action="store_true", help="show the last report (with --full the last full one), measure nothing"
    )


def run(arguments: Namespace) -> int:
    client = connect(arguments)
    path = f"/v1/deployments/{quoted(arguments.slug)}"
    if not arguments.last:
        body = {"quick": arguments.quick, "points": arguments.points}
        follow(arguments, client, *begin(client, path, body))
    report = client.get(f"{path}/verification{'?full=1' if arguments.last and arguments.full else ''}")
    if arguments.json:
        print_json(report)
    else:
        print(text_of(report, coloured(arguments)))
    return 0


def begin(client: Client, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The operation, and whether Ctrl-C was pressed meanwhile: who does not know what was begun cannot cancel it.

    Pressed twice, it ends here and now.
    """
    import signal

    pressed: list[int] = []

    def hold(number: int, _: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    before = signal.signal(signal.SIGINT, hold)
    try:
        return client.call("POST", f"{path}/verify", body), bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


def follow(arguments: Namespace, client: Client, operation: dict[str, Any], interrupted: bool) -> None:
    """Until it is over; Ctrl-C cancels it and leaves no request behind."""
    from agent.adapters.agent_client import ApiError

    progress = Progress(arguments)
    try:
        if interrupted:
            raise KeyboardInterrupt
        while operation["state"] == "running":
            step = operation["progress"]
            progress.show(str(step.get("text") or "begins"), step.get("ratio"))
            operation = client.get(f"/v1/operations/{operation['id']}?wait={POLL_S}")
    except KeyboardInterrupt:
        said = cancel(client, operation)
        progress.done()
        print(said, file=sys.stderr)
        raise
    progress.done()
    if operation["error"]:
        raise ApiError(operation["error"])


def cancel(client: Client, operation: dict[str, Any]) -> str:
    """What became of it; one that was just over needs no cancelling."""
    from agent.adapters.agent_client import ApiError

    try:
        client.call("POST", f"/v1/operations/{operation['id']}/cancel", {})
    except ApiError as error:
        return f"not cancelled: {error.text}"
    return "cancelled; nothing of it runs on"


def text_of(report: dict[str, Any], colours: bool) -> str:
    """Measured | claimed | ratio, what was left out, and what is known of other points from earlier reports."""
    from agent.verify.plausible import limits_text

    rows = [cells(row, colours) for row in report["rows"]]
    lines = [table(rows, HEAD, colours)]
    lines += [f"left out   {one['point']}: {one['why']}" for one in report["left_out"]]
    unwatched = [one["name"] for one in report["points"] if not one.get("watched", True) and not one["dropped"]]
    if unwatched:
        lines.append(
            f"not known  whether others were served meanwhile, its engine does not say: {', '.join(unwatched)}"
        )
    if (limits := report.get("limits")) is not None:  # a report of an earlier version has none
        lines.append(f"limits     {limits_text(limits)}")
    lines.append(f"measured {origin(report)}, plan {report['plan_id']}")
    # reports of earlier versions have neither
    if last := report.get("earlier"):
        lines += ["", "earlier, on the same plan, and not measured since:"]
        lines.append(table([(*cells(row, colours), origin(row)) for row in last], (*HEAD, "WHEN"), colours))
    if report.get("last_full") not in (None, report["at"]):
        lines.append(f"in full  {report['last_full']}: agentctl verify {report['slug']} --last --full")
    return "\n".join(lines)


def origin(measured: dict[str, Any]) -> str:
    """When, for whom and how it was measured, of a report or a row."""
    how = " in short" if measured.get("quick") else ""
    return f"{measured['at']}{how}" + (f" for {measured['by']}" if measured.get("by") else "")


def cells(row: dict[str, Any], colours: bool) -> tuple[str, ...]:
    if row["measured"] is None:
        return row["point"], row["metric"], "dropped", row["dropped"][:60], number(row["claimed"]), ""
    spread = f"{number(row['low'])}-{number(row['high'])} ({row['repeats']})"
    return row["point"], row["metric"], number(row["measured"]), spread, number(row["claimed"]), ratio(row, colours)


def number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.1f}"


def ratio(row: dict[str, Any], colours: bool) -> str:
    """Green where it keeps what was claimed; for a time, less is better."""
    found = row["ratio"]
    if found is None:
        return ""
    kept = found <= 1 / LOW if row["metric"] == "ttft_ms" else found >= LOW
    return paint(f"{found:.2f}", GOOD if kept else BAD, colours)
