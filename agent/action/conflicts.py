"""What two deployments of one host cannot share: cards, names, ports (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agent.errors import Refused
from agent.plan.model import Plan
from agent.preflight.ports import published


class Conflict(Refused):
    """Another deployment of this agent has what the plan wants."""

    code = "deployment.conflict"
    message = "cannot deploy {slug}: {why}"
    hint = "choose other cards or another port with --set, or take its place: agentctl deploy {slug} --replace {other}"


def no_conflict(plan: Plan, others: Iterable[Plan]) -> None:
    """Raises Conflict for the first of the plans that should run and wants the same."""
    for other in others:
        clashes = list(clash(plan, other))
        if clashes:
            slug = other.recipe.slug
            raise Conflict(slug=plan.recipe.slug, other=slug, why=f"{slug} has {'; '.join(clashes)}")


def clash(plan: Plan, other: Plan) -> Iterator[str]:
    """What both want, in words."""
    if cards := sorted(set(plan.gpus) & set(other.gpus)):
        yield f"the cards {', '.join(cards)}"
    if plan.container and other.container and plan.container.name == other.container.name:
        yield f"the name {plan.container.name}"
    taken = {port.number for port in published(other)}
    if ports := sorted(port.number for port in published(plan) if port.number in taken):
        yield f"the port {', '.join(map(str, ports))}"
