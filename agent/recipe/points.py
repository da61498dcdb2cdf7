"""What a document says it measured: the union of `perf_points` and the points within `performance[].metrics`.

Neither alone is complete: the site's own table leaves points out that stand only in the JSON text beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from agent.recipe.document import Document, MetricsPart, PerformancePart, PointPart
from agent.recipe.jsontext import loads
from agent.recipe.model import Point
from agent.recipe.trouble import BadRecipe


def points(document: Document, notes: list[str]) -> tuple[Point, ...]:
    """All points, a point that both lists have once (under its place in `perf_points`)."""
    listed = [_point(part, f"perf_points[{at}]", None) for at, part in enumerate(document.perf_points) if part]
    inner = [point for at, part in enumerate(document.performance) if part for point in _inner(part, at, notes)]
    known = {_facts(point) for point in listed}
    return tuple(listed) + tuple(point for point in inner if _facts(point) not in known)


def _inner(part: PerformancePart, at: int, notes: list[str]) -> Iterator[Point]:
    metrics = _metrics(part, at, notes)
    for index, point in enumerate(metrics.points if metrics else ()):
        if point is not None:
            yield _point(point, f"performance[{at}].metrics.points[{index}]", part.claimed_by)


def _metrics(part: PerformancePart, at: int, notes: list[str]) -> MetricsPart | None:
    value, what = part.metrics, f"performance[{at}].metrics"
    try:
        value = loads(value, what, notes) if isinstance(value, str) and value.strip() else value
        return MetricsPart.model_validate(value, context=notes) if isinstance(value, dict) else None
    except BadRecipe:
        notes.append(f"{what} is a text that is no JSON; no claim was read from it")
    except ValidationError as error:
        notes.append(f"{what} cannot be read: {error.errors(include_url=False)[0]['msg']}")
    return None


def _point(part: PointPart, origin: str, claimed_by: str | None) -> Point:
    return Point(
        origin=origin,
        context=part.context_len or None,
        concurrency=part.concurrency or None,
        decode_tok_s=part.decode_tok_s or None,
        prefill_tok_s=part.prefill_tok_s or None,
        ttft_ms=part.ttft_ms or None,
        claimed_by=part.claimed_by or claimed_by,
        note=part.notes or "",
    )


def _facts(point: Point) -> tuple[float | None, ...]:
    return (point.context, point.concurrency, point.decode_tok_s, point.prefill_tok_s, point.ttft_ms)
