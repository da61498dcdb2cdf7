"""agentctl preflight: every check of a recipe on this host, and nothing touched. Needs no daemon."""

from __future__ import annotations

from agent.cli.output import coloured, columns, print_json
from agent.cli.wanted import add_wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from agent.plan.model import Plan
    from agent.preflight.check import Check
    from agent.preflight.model import Finding


def add_arguments(parser: ArgumentParser) -> None:
    add_wanted(parser)
    parser.add_argument("--accept", action="append", default=[], metavar="CHECK", help="overrule a check by name")
    parser.add_argument("--skip", action="append", default=[], metavar="CHECK", help="leave a check out")
    parser.add_argument("--touch", action="store_true", help="also take 64 MiB of every chosen card and give it back")
    parser.add_argument("--hash", action="store_true", help="also read all weights and compare their hashes")


def run(arguments: Namespace) -> int:
    import asyncio

    from agent.preflight.model import passed
    from agent.preflight.render import as_json, as_text

    plan, findings = asyncio.run(examined(arguments))
    findings = (*gaps(plan), *findings)
    accepted = frozenset(arguments.accept)
    if arguments.json:
        print_json(as_json(findings, accepted))
    else:
        print(as_text(findings, accepted, colour=coloured(arguments), columns=columns()))
    return 0 if passed(findings, accepted) else 3


def gaps(plan: Plan) -> tuple[Finding, ...]:
    """What the plan misses, as findings that refuse: deploy refuses for it before any check."""
    from agent.preflight.model import Finding, Level

    return tuple(
        Finding("plan", Level.FAIL, f"misses {one.key}: {one.why}", hint=one.how, required=True) for one in plan.missing
    )


async def examined(arguments: Namespace) -> tuple[Plan, tuple[Finding, ...]]:
    """The plan, and what every check says of it. What runs of the same slug is credited with what it holds."""
    from agent.cli.local import planner, running
    from agent.wiring import check

    checks = checks_of(arguments)
    async with planner(arguments) as (parts, planning, wanted):
        plan = await planning.plan(wanted)
        return plan, await check(parts, plan, await running(parts, plan), checks)


def checks_of(arguments: Namespace) -> tuple[Check, ...]:
    """The usual ones, those asked for, less those left out. Raises UsageError for a name that is none."""
    from agent.preflight.catalogue import CHECKS, known
    from agent.preflight.checks import gpu_touch, weights_hash
    from agent.preflight.run import without

    asked = ((arguments.touch, gpu_touch.CHECK), (arguments.hash, weights_hash.CHECK))
    wanted = (*CHECKS, *(check for given, check in asked if given))
    known((*arguments.skip, *arguments.accept))
    return without(wanted, arguments.skip)
