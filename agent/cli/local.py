"""What commands without a daemon share: the site's parts, the planner, and what was asked of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.api.wanted import Wanted
from agent.cli.site import settings_of
from agent.cli.wanted import is_file, read_document, sets_of, whole_path
from agent.errors import AgentError
from agent.plan.model import Plan
from agent.preflight.credit import Running
from agent.wiring import Parts, Planner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace


@asynccontextmanager
async def planner(arguments: Namespace) -> AsyncIterator[tuple[Parts, Planner, Wanted]]:
    """Parts that are let go of at the end."""
    parts = Parts(settings_of(arguments))
    try:
        yield parts, Planner(parts), wanted_of(arguments)
    finally:
        await parts.close()


def wanted_of(arguments: Namespace) -> Wanted:
    """SLUG|FILE and --set."""
    sets = sets_of(arguments)
    if not is_file(arguments.recipe):
        return Wanted(slug=arguments.recipe, sets=sets)
    return Wanted(document=read_document(arguments.recipe), source=whole_path(arguments.recipe), sets=sets)


async def running(parts: Parts, plan: Plan) -> Running | None:
    """The deployment of the same slug that runs here, by its labels; None where none does or nobody can say."""
    from agent.host.reading import value_of
    from agent.preflight.ports import published

    try:
        views = await parts.runtime(plan.runtime).list()
    except AgentError:
        return None
    mine = [view for view in views if view.slug == plan.recipe.slug and view.running]
    if not mine:
        return None
    view = max(mine, key=lambda one: one.generation)
    tree = value_of(await parts.processes.tree(view.pid)) if view.pid is not None else ()
    pids = frozenset(process.pid for process in tree or ())
    return Running(view.id, view.name, pids, frozenset(port.number for port in published(plan)))
