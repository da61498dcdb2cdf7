"""One deployment on the page: state and sentence first, then the figures with their plots, then the time line."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence

from agent.action.record import State, Supervision
from agent.action.store import Event
from agent.api.view.html import Html, joined, tag
from agent.api.view.plot import Axis, Line, ceiling, plot
from agent.api.view.story import story
from agent.api.view.words import SIGNS, UNKNOWN, count, moment, mood, percent, span
from agent.metrics.board import Board
from agent.metrics.trail import SPAN_S, STEP_S, Point, number
from agent.metrics.words import heading, unseen

STALE_LOOKS = 3
"""A board older than so many looks (and a minute) is said to be old."""
ON_ITS_WAY = frozenset({State.PENDING, State.PLANNING, State.PREFLIGHT, State.IMAGE, State.STARTING})


def part_id(slug: str) -> str:
    """An id for a slug, which may hold what an id may not."""
    return "d-" + hashlib.sha256(slug.encode()).hexdigest()[:10]


def deployment(board: Board, trail: Sequence[Point], events: Sequence[Event], now: float) -> Html:
    record, key = board.record, part_id(board.record.slug)
    return tag(
        "article",
        tag("header", tag("h2", record.slug, id=f"{key}-h"), badge(record.state)),
        tag("p", record.why or "has not been looked at yet", class_="why"),
        tag("p", "since ", moment(record.since, now), f", {span(now - record.since)}", class_="quiet"),
        # always there: what follows keeps its place, and a reader's focus with it
        tag("div", *notices(board, now), startup(board)),
        tag("div", *plots(board, trail, now), class_="plots"),
        tag("dl", *rows(board), class_="facts"),
        story(record, events, now),
        id=key,
        class_=f"deployment {mood(record.state)}",
        aria_labelledby=f"{key}-h",
    )


def badge(state: State) -> Html:
    kind = mood(state)
    sign = tag("span", SIGNS[kind], aria_hidden="true")
    return tag("p", sign, f" {state.value}", class_=f"badge {kind}")


def notices(board: Board, now: float) -> Iterator[Html]:
    """What a look at the state alone would miss."""
    record = board.record
    age = now - board.at
    if age > max(60.0, STALE_LOOKS * board.plan.watch.period.value):
        yield notice(f"Not looked at for {span(age)}: what stands here may be old.")
    if record.supervision is Supervision.PAUSED:
        yield notice("Supervision is paused: the agent judges and does nothing.")
    elif record.supervision is Supervision.OBSERVE:
        yield notice("Supervision only observes: the agent counts what it would have done.")
    if board.refused is not None:
        error = board.refused.error
        yield notice(f"{error.get('message', '')} {error.get('hint', '')}".strip())


def notice(sentence: str) -> Html:
    return tag("p", sentence, class_="notice")


def startup(board: Board) -> Html:
    """How far a start, a pull or a build is."""
    if board.record.state not in ON_ITS_WAY:
        return Html("")
    said = board.progress.get("text") or (board.verdict.phase if board.verdict else None) or board.record.state.value
    ratio = board.progress.get("ratio") if board.progress else (board.verdict.progress if board.verdict else None)
    known = isinstance(ratio, int | float)
    bar = tag("progress", max="1", value=f"{ratio:.3f}" if known else None, aria_label="start-up")
    return tag("p", bar, tag("span", f"{said} {percent(ratio) if known else ''}".strip()), class_="startup")


def plots(board: Board, trail: Sequence[Point], now: float) -> Iterator[Html]:
    """Tokens, KV cache, requests: the number now and what the trail has of the last quarter of an hour."""
    figures = board.verdict.figures if board.verdict else {}
    axis = axis_of(trail, now)
    tokens, kv = number(figures, "decode_tokens_per_second"), number(figures, "kv_cache_usage_ratio")
    running, waiting = number(figures, "requests_running"), number(figures, "requests_waiting")
    speed = [(one.at, one.tokens_per_s) for one in trail]
    top = ceiling((value for _, value in speed), 10.0)
    yield figure(heading("decode_tokens_per_second"), count(tokens), [Line(speed, top)], count(top), axis)
    share = [(one.at, one.kv_ratio) for one in trail]
    yield figure(heading("kv_cache_usage_ratio"), percent(kv), [Line(share, 1.0)], "100%", axis)
    works = [(one.at, one.running) for one in trail]
    waits = [(one.at, one.waiting) for one in trail]
    most = ceiling((value for _, value in (*works, *waits)), 4.0)
    yield figure(
        "Requests", requests(running, waiting), [Line(works, most), Line(waits, most, "second")], count(most), axis
    )


def axis_of(trail: Sequence[Point], now: float) -> Axis:
    """Whole minutes, at least three: a young deployment's plot is not one line at its right edge."""
    known = now - trail[0].at if trail else 0.0
    return Axis(now - now % STEP_S, min(SPAN_S, max(180.0, 60.0 * math.ceil(known / 60))))


def requests(running: float | None, waiting: float | None) -> Html:
    """Each number beside the look of its line."""
    if running is None:
        return tag("span", UNKNOWN)
    return joined(
        [
            tag("span", count(running), class_="key first"),
            " running, ",
            tag("span", count(waiting), class_="key second"),
            " waiting",
        ]
    )


def figure(name: str, value: str, lines: list[Line], top: str, axis: Axis) -> Html:
    minutes = f"{axis.seconds / 60:.0f} min"
    label = f"{name} over the last {minutes}, at most {top} on this scale"
    return tag(
        "figure",
        tag("figcaption", tag("span", name), tag("strong", value)),
        tag("div", tag("span", top, class_="top", aria_hidden="true"), plot(lines, axis, label), class_="ground"),
        tag("p", tag("span", f"{minutes} ago"), tag("span", "now"), class_="axis", aria_hidden="true"),
    )


def rows(board: Board) -> Iterator[Html]:
    """The rest, as pairs."""
    record, figures = board.record, board.verdict.figures if board.verdict else {}
    restarts = sum(value for key, value in record.counts.items() if key.startswith("restarts."))
    incidents = sum(value for key, value in record.counts.items() if key.startswith("incidents."))
    facts = {
        "Endpoint": tag("a", board.endpoint, href=board.endpoint, rel="noreferrer") if board.endpoint else "none",
        heading("client_connections"): count(number(figures, "client_connections")),
        heading("zombie_requests"): count(number(figures, "zombie_requests")),
        "Restart budget": f"{len(record.restarts)} of {board.plan.watch.budget} spent",
        "Restarts, incidents": f"{restarts}, {incidents}",
        "Last start took": UNKNOWN if board.startup_s is None else span(board.startup_s),
        "Generation": f"{record.generation} ({board.runtime})",
    }
    if board.verdict is not None and board.verdict.blind:
        facts["Cannot see"] = "; ".join(map(unseen, board.verdict.blind))
    if record.step and record.step != record.why:
        facts["Last step"] = record.step
    for name, value in facts.items():
        yield tag("div", tag("dt", name), tag("dd", value), class_="wide" if name == "Last step" else None)
