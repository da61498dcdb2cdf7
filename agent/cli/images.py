"""agentctl image save, load and prune. None needs the daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.cli.output import print_json
from agent.errors import AgentError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from agent.image.retention import Removable
    from agent.wiring import Parts


class NotHereYet(AgentError):
    """There is no lock of this plan."""

    code = "image.not_here"
    message = "cannot save the image of {slug}: it was not made sure of yet for plan {plan_id}"
    hint = "agentctl build {slug}, or agentctl pull {slug}"


FORMS = {"save": ("SLUG|FILE", "FILE"), "load": ("FILE",), "prune": ()}
"""What each action takes."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.usage = "agentctl image save SLUG|FILE FILE | load FILE | prune [--yes]"
    parser.add_argument("action", metavar="|".join(FORMS), choices=tuple(FORMS), help="what to do")
    parser.add_argument("words", nargs="*", metavar="WORD", help="save: a recipe and a file; load: a file")
    parser.add_argument("--set", action="append", default=[], dest="sets", metavar="KEY=VALUE", help="as for build")
    parser.add_argument("--yes", action="store_true", help="prune: remove what is listed, not only list it")
    parser.epilog = (
        "save writes the image as docker load takes it and its lock beside, as FILE.lock.json, for a host without a "
        "registry. prune lists what the agent made or fetched and no kept plan needs."
    )


def run(arguments: Namespace) -> int:
    import asyncio

    form = FORMS[arguments.action]
    if len(arguments.words) != len(form):
        raise UsageError(why=f"image {arguments.action} takes {' '.join(form) or 'no further word'}")
    actions = {"save": save, "load": load, "prune": prune}
    return asyncio.run(actions[arguments.action](arguments))


async def save(arguments: Namespace) -> int:
    from pathlib import Path

    from agent.cli.local import planner
    from agent.image import carry
    from agent.quantity import Bytes

    arguments.recipe, file = arguments.words
    async with planner(arguments) as (parts, planning, wanted):
        plan = await planning.plan(wanted)
        lock = await parts.images.locks.read(plan.plan_id)
        if lock is None:
            raise NotHereYet(slug=plan.recipe.slug, plan_id=plan.plan_id)
        path = Path(file)
        size = await carry.save(plan.plan_id, lock, parts.images.builder, path)
    tell(arguments, {"file": str(path), "bytes": size, "image": lock.image.reference}, f"{path}: {Bytes(size)}")
    return 0


async def load(arguments: Namespace) -> int:
    from pathlib import Path

    from agent.image import carry

    async with opened(arguments) as parts:
        images = parts.images
        here = await carry.load(Path(arguments.words[0]), parts.docker, images.builder, images.locks)
    tell(arguments, {"image": here.reference, "id": here.id}, f"{here.reference} is here: {here.id}")
    return 0


async def prune(arguments: Namespace) -> int:
    """The list; with --yes what of it could be removed."""
    async with opened(arguments) as parts:
        found = await unneeded(parts)
        removed = {one.image: await parts.images.builder.remove(one.image) for one in found} if arguments.yes else {}
    if arguments.json:
        print_json([{"image": o.image, "why": o.why, "size": o.size, "removed": removed.get(o.image)} for o in found])
        return 0
    for one in found:
        print(line(one, removed.get(one.image)))
    if not found and not arguments.quiet:
        print("nothing to remove")
    elif found and not arguments.yes and not arguments.quiet:
        print("nothing was removed: add --yes")
    return 0


def line(one: Removable, removed: bool | None) -> str:
    from agent.quantity import Bytes

    size = f", up to {Bytes(one.size)}" if one.size is not None else ""
    done = {None: "", True: ": removed", False: ": kept, something uses it"}[removed]
    return f"{one.image} ({one.why}{size}){done}"


async def unneeded(parts: Parts) -> tuple[Removable, ...]:
    """By the record of the deployments: what runs, what comes next and what was good last or before it is kept."""
    from agent.adapters.sqlite_store import SqliteStore
    from agent.image.retention import removable

    store = SqliteStore(parts.settings.paths.state / "state.db")
    try:
        records = await store.load()
    finally:
        await store.close()
    plans = [(one.plan_id, one.next_plan, one.last_good, one.returning, one.before) for one in records]
    kept = {plan_id for some in plans for plan_id in some if plan_id is not None}
    made, locks = await parts.images.builder.made(), await parts.images.locks.all()
    return removable(made, locks, kept, parts.clock.now().wall)


@asynccontextmanager
async def opened(arguments: Namespace) -> AsyncIterator[Parts]:
    """The site's parts, let go of at the end."""
    from agent.cli.site import settings_of
    from agent.wiring import Parts

    parts = Parts(settings_of(arguments))
    try:
        yield parts
    finally:
        await parts.close()


def tell(arguments: Namespace, data: dict[str, object], text: str) -> None:
    if arguments.json:
        print_json(data)
    else:
        print(text)
