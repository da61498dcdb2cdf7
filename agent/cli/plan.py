"""agentctl plan: what would run here, every value with its origin. Needs no daemon."""

from __future__ import annotations

from agent.cli.output import coloured, print_json
from agent.cli.wanted import add_wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping
    from typing import Any

    from agent.plan.model import Plan


def add_arguments(parser: ArgumentParser) -> None:
    add_wanted(parser)
    parser.add_argument("--diff", action="store_true", help="against what runs of the same slug")
    parser.epilog = "Exits 0 also when the plan misses something: `missing` says what, and how to supply it."


def run(arguments: Namespace) -> int:
    import asyncio

    from agent.plan.tojson import to_json

    plan = asyncio.run(planned(arguments))
    if arguments.diff:
        return show_diff(arguments, plan)
    if arguments.json:
        print_json(to_json(plan))
    else:
        print(text_of(to_json(plan), colours=coloured(arguments), whole=arguments.verbose), end="")
    return 0


async def planned(arguments: Namespace) -> Plan:
    from agent.cli.local import planner

    async with planner(arguments) as (_, planning, wanted):
        return await planning.plan(wanted)


def text_of(plan: Mapping[str, Any], *, colours: bool, whole: bool) -> str:
    """One screen that a person can check before saying yes; `whole` cuts no line."""
    from agent.plan.show import show
    from agent.plan.tojson import plan_from_json

    text = show(plan_from_json(plan), whole)
    return bold_keys(text) if colours else text


def bold_keys(text: str) -> str:
    """The first word of each row stands out."""
    import re

    return re.sub(r"(?m)^([a-z][a-z ]*?)(\s{2,})", "\x1b[1m\\1\x1b[0m\\2", text)


def show_diff(arguments: Namespace, plan: Plan) -> int:
    """What would change against what runs: the agent says what that is, its state file where it is not running."""
    from agent.plan.diff import diff

    found = diff(running_plan(arguments, plan.recipe.slug), plan)
    if arguments.json:
        print_json(found.to_json())
    else:
        print("\n".join(found.lines()))
    return 0


def running_plan(arguments: Namespace, slug: str) -> Plan:
    """The plan of the deployment; raises NotFound where there is none."""
    import asyncio

    from agent.cli.connect import connect
    from agent.cli.status import quoted
    from agent.errors import Unreachable
    from agent.plan.tojson import plan_from_json

    try:
        return plan_from_json(connect(arguments).get(f"/v1/deployments/{quoted(slug)}/plan"))
    except Unreachable:
        return asyncio.run(stored_plan(arguments, slug))


async def stored_plan(arguments: Namespace, slug: str) -> Plan:
    from agent.adapters.sqlite_store import SqliteStore
    from agent.cli.site import settings_of
    from agent.errors import NotFound
    from agent.plan.tojson import plan_from_json

    path = settings_of(arguments).paths.state / "state.db"
    store = SqliteStore(path)
    try:
        records = await store.load() if path.is_file() else ()
        record = next((one for one in records if one.slug == slug), None)
        kept = await store.plan(record.plan_id) if record else None
    finally:
        await store.close()
    if kept is None:
        raise NotFound(what="deployment", name=slug, why="nothing of this slug is deployed here")
    return plan_from_json(kept)
