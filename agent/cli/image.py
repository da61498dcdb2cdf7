"""agentctl build and pull: a recipe's image alone, with nothing started. Neither needs the daemon."""

from __future__ import annotations

from agent.cli.output import Progress, print_json
from agent.cli.wanted import add_wanted
from agent.errors import Refused, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping
    from typing import Any

    from agent.image.lock import Lock
    from agent.image.port import ImageReady, Say
    from agent.plan.model import ImagePlan, Missing, Plan
    from agent.wiring import Parts

NO_IMAGE = "it runs without an image: agentctl plan says what it runs instead"
PLAIN_S = 10.0
"""Between two lines on the same where no terminal rewrites them."""


class PlanMisses(Refused):
    """The image needs something from the operator first."""

    code = "plan.missing"
    message = "cannot {action} the image of {slug}: the plan misses {keys}"


def add_arguments(parser: ArgumentParser) -> None:
    add_wanted(parser)
    if parser.prog.endswith(" build"):
        parser.add_argument("--print", action="store_true", dest="show", help="print the Dockerfile; fetch nothing")
        parser.epilog = "Builds the steps also where an image of the recipe's name is here, and never takes that name."
        return
    parser.add_argument("--update", action="store_true", help="take what the tag is now, not what this plan ran before")


def run(arguments: Namespace) -> int:
    """Exit 0 with the image here, 3 where the plan misses something that the image needs."""
    import asyncio

    return asyncio.run(build(arguments) if arguments.command == "build" else pull(arguments))


async def build(arguments: Namespace) -> int:
    from agent.cli.local import planner

    async with planner(arguments) as (parts, planning, wanted):
        plan = await planning.plan(wanted)
        if plan.image is None or not plan.image.steps:
            complete(plan, "build")
            advice = "its image comes from a registry: agentctl pull" if plan.image is not None else NO_IMAGE
            raise UsageError(why=f"{plan.recipe.slug} has no build steps", advice=advice)
        if arguments.show:
            show(arguments, plan)
            return 0
        return await provide(arguments, plan, as_built(plan), parts)


async def pull(arguments: Namespace) -> int:
    from agent.cli.local import planner

    async with planner(arguments) as (parts, planning, wanted):
        plan = await planning.plan(wanted)
        if plan.image is None:
            complete(plan, "pull")
            raise UsageError(why=f"{plan.recipe.slug} has no image", advice=NO_IMAGE)
        if plan.image.how == "build":
            raise UsageError(why=f"the image of {plan.recipe.slug} is built, not pulled", advice="agentctl build")
        return await provide(arguments, plan, plan, parts)


def as_built(plan: Plan) -> Plan:
    """The same with its image built, whatever is here under its name."""
    from dataclasses import replace

    image: ImagePlan | None = plan.image and replace(plan.image, how="build")
    return replace(plan, image=image)


def show(arguments: Namespace, plan: Plan) -> None:
    """The Dockerfile, as far as it is known without fetching anything; what is missing goes to stderr."""
    import sys

    from agent.image.build import image_of
    from agent.image.buildplan import sketched
    from agent.image.dockerfile import Base, write

    sketch = sketched(image_of(plan), plan.recipe.slug)
    text = write(sketch, Base(sketch.base, sketch.base)).text
    if arguments.json:
        print_json({"dockerfile": text})
        return
    print(text, end="")
    for one in image_gaps(plan):
        print(f"missing: {one.key}: {one.why}", file=sys.stderr)


async def provide(arguments: Namespace, plan: Plan, wanted: Plan, parts: Parts) -> int:
    """Bring it here, with progress, and say what is here now."""
    from agent.image.ensure import ensure, update

    complete(plan, arguments.command)
    images, progress = parts.images, Progress(arguments)
    try:
        bring = update if getattr(arguments, "update", False) else ensure
        ready = await bring(wanted, parts.docker, teller(arguments, progress), images.supply)
        lock = await images.locks.read(plan.plan_id)
    finally:
        progress.done()
    tell(arguments, ready, lock)
    return 0


def teller(arguments: Namespace, progress: Progress) -> Say:
    """A line that counts on a terminal, few plain lines elsewhere; with JSON, stderr is the error's alone."""
    import sys

    from agent.clock import SystemClock
    from agent.image.steady import Steady

    def show(said: Mapping[str, Any]) -> None:
        progress.show(said["text"], said["ratio"])

    if arguments.json:
        return lambda _: None
    return show if sys.stderr.isatty() else Steady(show, SystemClock(), PLAIN_S)


def complete(plan: Plan, action: str) -> None:
    """Refuse where something is missing that the image rests on; ports and folders are no matter here."""
    if missing := image_gaps(plan):
        advice = "; ".join(f"{one.key}: {one.how}" for one in missing)
        keys = ", ".join(one.key for one in missing)
        details = [{"key": one.key, "why": one.why, "how": one.how} for one in missing]
        raise PlanMisses(action=action, slug=plan.recipe.slug, keys=keys, advice=advice, missing=details)


def image_gaps(plan: Plan) -> list[Missing]:
    """Of what the plan misses, the part that its image rests on."""
    return [one for one in plan.missing if one.key.startswith("image.")]


def tell(arguments: Namespace, ready: ImageReady, lock: Lock | None) -> None:
    if arguments.json:
        image = {"reference": ready.reference, "digest": ready.digest, "id": ready.id}
        print_json({"image": image, "lock": lock.to_json() if lock is not None else None})
        return
    print(f"{ready.reference} is here: {ready.digest or ready.id}")
    if arguments.quiet or lock is None:
        return
    if lock.base is not None:
        print(f"  on {lock.base.reference} {lock.base.digest or lock.base.id}")
    for name, source in lock.sources.items():
        print(f"  {name} {source.commit[:12]}, license {source.license or 'not stated'} ({source.url})")
