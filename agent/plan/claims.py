"""Claims: what the recipe says it measured, from every place that says it."""

from __future__ import annotations

from collections.abc import Iterator

from agent.plan.model import Claim
from agent.profile.document import Claims
from agent.recipe.model import Point, Recipe

METRICS = ("decode_tok_s", "prefill_tok_s", "ttft_ms")
FILLER = "context_len 1 is a filler: the context is not stated"
LISTED = "the listing's own figure: concurrency and context are not stated"


def claims_of(recipe: Recipe, stated: Claims) -> tuple[Claim, ...]:
    """The recipe's points, then the figures that a profile read from prose; an entry of a listing has its two alone.

    A decode rate at more than one request at a time is the sum over them. Unknown values make no claim.
    """
    found = [claim for point in recipe.points for claim in _of_point(point)]
    if not recipe.points:
        found.extend(_listed(recipe))
    found.extend(_of_prose(stated))
    shared = stated.note.value if stated.note else ""
    return tuple(_noted(claim, shared) for claim in found)


def _of_point(point: Point) -> Iterator[Claim]:
    context = point.context if point.context is not None and point.context > 1 else None
    note = point.note if context is not None or point.context is None else _joined(point.note, FILLER)
    for metric in METRICS:
        value = getattr(point, metric)
        if value:
            yield Claim(
                metric, value, point.concurrency, context, _summed(metric, point.concurrency), point.origin, note
            )


def _summed(metric: str, concurrency: int | None) -> bool:
    return metric == "decode_tok_s" and (concurrency or 1) > 1


def _listed(recipe: Recipe) -> Iterator[Claim]:
    for metric in METRICS:
        value = recipe.document.get(metric)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            yield Claim(metric, float(value), None, None, False, metric, LISTED)


def _of_prose(stated: Claims) -> Iterator[Claim]:
    for at, point in enumerate(stated.points):
        origin = point.origin(f"claims.points[{at}]")
        aggregate = _summed(point.metric, point.concurrency)
        yield Claim(point.metric, point.value, point.concurrency, point.context, aggregate, origin, point.note)


def _noted(claim: Claim, shared: str) -> Claim:
    if not shared:
        return claim
    note = _joined(claim.note, shared)
    return Claim(claim.metric, claim.value, claim.concurrency, claim.context, claim.aggregate, claim.origin, note)


def _joined(first: str, second: str) -> str:
    return f"{first}; {second}" if first else second
