"""agentctl deploy: show the plan, ask, and follow it until the engine's container runs."""

from __future__ import annotations

import sys
import time

from agent.cli.connect import connect
from agent.cli.output import Progress, coloured, print_json
from agent.cli.status import quoted
from agent.cli.wanted import add_wanted, wanted_body
from agent.errors import AgentError, Refused, TimedOut, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from agent.adapters.agent_client import Client

POLL_S = 20
LEAST_S = 0.05
SERVING = frozenset({"ready", "busy", "suspect", "asleep"})
GIVEN_UP = frozenset({"failed", "quarantined", "stopped"})


class GivenUp(AgentError):
    """The engine will not come without a person."""

    code = "deployment.given_up"
    message = "cannot wait for {slug} any longer: it is {state}: {why}"
    hint = "agentctl events {slug}; agentctl incidents {slug}"


class PlanMisses(Refused):
    """The plan needs something from the operator first."""

    code = "plan.missing"
    message = "cannot deploy {slug}: the plan misses {keys}"


def add_arguments(parser: ArgumentParser) -> None:
    add_wanted(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--wait", nargs="?", const=0.0, type=seconds, metavar="SECONDS", help="until it is ready or was given up"
    )
    parser.add_argument("--accept", action="append", default=[], metavar="CHECK", help="overrule a check; recorded")
    parser.add_argument("--replace", metavar="OTHER", help="take the place of another deployment, on the same cards")
    parser.add_argument("--dry-run", action="store_true", help="print the steps, do nothing")


def seconds(text: str) -> float:
    """What `--wait` takes; it takes the next word, so a recipe that follows it is told where to stand."""
    from argparse import ArgumentTypeError

    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no number of seconds; --wait alone stands after the recipe")
    return value


def run(arguments: Namespace) -> int:
    client = connect(arguments)
    body = wanted_body(arguments)
    if not (arguments.yes or arguments.dry_run) and not sys.stdin.isatty():
        raise UsageError(why="deploy asks before it acts, and there is no terminal", advice="add --yes")
    plan = client.call("POST", "/v1/plans", body)
    complete(plan)
    if arguments.dry_run:
        return dry_run(arguments, client, body)
    if arguments.yes and not (arguments.quiet or arguments.json):
        print(*(f"warning: {text}\n" for text in plan["warnings"]), sep="", end="", file=sys.stderr)
    if not arguments.yes and not confirmed(arguments, plan):
        print("nothing was done", file=sys.stderr)
        return 1
    body |= {"plan_id": plan["plan_id"], "accept": arguments.accept, "replace": arguments.replace}
    operation = client.call("POST", "/v1/deployments", body)
    return finish(arguments, client, operation)


def complete(plan: dict[str, Any]) -> None:
    """Refuse a plan that misses something, with how to supply each."""
    missing = plan["missing"]
    if not missing:
        return
    slug = plan["recipe"]["slug"]
    advice = "; ".join(f"{one['key']}: {one['how']}" for one in missing)
    raise PlanMisses(slug=slug, keys=", ".join(one["key"] for one in missing), advice=advice, missing=missing)


def confirmed(arguments: Namespace, plan: dict[str, Any]) -> bool:
    """One screen, one question; an end of the input is a no."""
    from agent.cli.plan import text_of

    print(text_of(plan, colours=coloured(arguments), whole=arguments.verbose))
    print("deploy this? [y/N] ", end="", flush=True)
    answer = sys.stdin.readline()
    return answer.strip().lower() in ("y", "yes")


def dry_run(arguments: Namespace, client: Client, body: dict[str, Any]) -> int:
    steps = client.call("POST", "/v1/plans/steps", body | {"replace": arguments.replace})
    if arguments.json:
        print_json(steps)
    else:
        print("\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)))
    return 0


def finish(arguments: Namespace, client: Client, operation: dict[str, Any]) -> int:
    """Follow the operation, then, with --wait, the engine; the endpoint is the last line."""
    deadline = time.monotonic() + arguments.wait if arguments.wait else None
    progress = Progress(arguments)
    slug = operation["slug"]
    with GoesOn(arguments, slug, progress):
        follow(client, operation, progress)
        if arguments.wait is not None:
            await_ready(client, operation, progress, deadline)
    progress.done()
    one = client.get(f"/v1/deployments/{quoted(slug)}")
    if arguments.json:
        print_json(one)
    elif not arguments.quiet:
        print(f"{slug} is {one['state']}: {one['why']}")
    if not arguments.json:
        print(one["endpoint"] or "it publishes no port that can be reached from here")
    return 0


class GoesOn:
    """Whoever stops looking is told that the work goes on, and how to look again or to end it."""

    def __init__(self, arguments: Namespace, slug: str, progress: Progress) -> None:
        self._silent = arguments.quiet or arguments.json
        self._slug = slug
        self._progress = progress

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyboardInterrupt) and not self._silent:
            self._progress.done()
            text = f"the agent goes on: agentctl status {self._slug}; to end it: agentctl stop {self._slug}"
            print(text, file=sys.stderr)


def follow(client: Client, operation: dict[str, Any], progress: Progress) -> None:
    """Until the operation is over; its refusal is raised as it came."""
    from agent.adapters.agent_client import ApiError

    while operation["state"] == "running":
        step = operation["progress"]
        progress.show(str(step.get("text") or "accepted"), step.get("ratio"))
        operation = client.get(f"/v1/operations/{operation['id']}?wait={POLL_S}")
    progress.done()
    if operation["error"]:
        raise ApiError(operation["error"])


def await_ready(client: Client, operation: dict[str, Any], progress: Progress, deadline: float | None) -> None:
    """Until the engine is ready, or was given up (for an older plan, too), or the time is over."""
    slug = operation["slug"]
    path = f"/v1/deployments/{quoted(slug)}"
    one = client.get(path)
    while True:
        as_asked = operation["plan_id"] in (None, one["plan_id"])
        if one["state"] in SERVING and as_asked:
            return
        if one["state"] in GIVEN_UP or not as_asked:
            progress.done()
            raise GivenUp(slug=slug, state=one["state"], why=one["why"])
        phase = one["startup"]["phase"]
        text = f"{one['state']}: {one['why']}" if phase is None else f"{phase}: {one['why']}"
        progress.show(text, one["startup"]["ratio"], step=phase or one["state"])
        if deadline is not None and time.monotonic() > deadline:
            progress.done()
            raise TimedOut(what=f"{slug} to become ready", why=f"it is {one['state']}: {one['why']}")
        asked = time.monotonic()
        one = client.get(f"{path}?wait=1&state={one['state']}")  # a second: its progress is shown meanwhile
        time.sleep(max(0.0, LEAST_S - (time.monotonic() - asked)))  # an agent that does not know how to wait
