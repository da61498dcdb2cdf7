"""Small plots as SVG: a line over the last quarter of an hour, and the states of the last hour as a band."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agent.api.view.html import Html, joined, tag
from agent.metrics.trail import SPAN_S, STEP_S

WIDTH, HEIGHT = 300.0, 60.0
BAND_HEIGHT = 18.0
GAP_S = 6 * STEP_S
"""Longer without a point than slow looks explain: the line breaks instead of guessing."""
Spot = tuple[float, float | None]
"""When, and how much; None is unknown."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The time that a plot spans: `seconds` up to `now`."""

    now: float
    seconds: float = SPAN_S


@dataclass(frozen=True, slots=True)
class Line:
    """One curve. `top` is the value at the plot's upper edge."""

    spots: Sequence[Spot]
    top: float
    kind: str = "first"


def plot(lines: Iterable[Line], axis: Axis, label: str) -> Html:
    """The curves over one ground; `label` says in words what a person who cannot see them needs."""
    drawn = [part for line in lines for part in curve(line, axis)]
    grid = [tag("line", class_="grid", x1="0", x2=f"{WIDTH:g}", y1=y, y2=y) for y in ("0.5", "30", "59.5")]
    box = f"0 0 {WIDTH:g} {HEIGHT:g}"
    return tag("svg", *grid, *drawn, class_="plot", viewBox=box, preserveAspectRatio="none", role="img",
               aria_label=label)  # fmt: skip


def curve(line: Line, axis: Axis) -> Iterator[Html]:
    for run in runs(line.spots, axis):
        points = [place(at, value, line.top, axis) for at, value in run]
        path = "L".join(points)
        if len(points) == 1:  # alone it would be invisible
            x, _, y = points[0].partition(" ")
            path = f"{points[0]}L{float(x) + 1.5:g} {y}"
        elif line.kind == "first":
            first, last = points[0].partition(" ")[0], points[-1].partition(" ")[0]
            yield tag("path", class_="area", d=f"M{first} {HEIGHT:g}L{path}L{last} {HEIGHT:g}Z")
        yield tag("path", class_=f"line {line.kind}", d=f"M{path}")


def runs(spots: Sequence[Spot], axis: Axis) -> Iterator[list[tuple[float, float]]]:
    """What is known without a gap."""
    run: list[tuple[float, float]] = []
    for at, value in spots:
        if run and (value is None or at - run[-1][0] > GAP_S):
            yield run
            run = []
        if value is not None and axis.now - axis.seconds <= at <= axis.now + STEP_S:
            run.append((at, value))
    if run:
        yield run


def place(at: float, value: float, top: float, axis: Axis) -> str:
    x = WIDTH * min(1.0, 1 - (axis.now - at) / axis.seconds)
    y = (HEIGHT - 2) * (1 - min(1.0, max(0.0, value / top if top else 0.0))) + 1
    return f"{x:.1f} {y:.1f}"


def ceiling(values: Iterable[float | None], least: float) -> float:
    """A round number at or above all of them."""
    most = max((value for value in values if value is not None), default=0.0)
    if most <= least:
        return least
    step = 1.0
    while step * 10 < most:
        step *= 10
    return next(step * factor for factor in (1, 2, 2.5, 5, 10) if step * factor >= most)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in one mood; `title` says which state and when."""

    start: float
    end: float
    mood: str
    title: str


def band(stretches: Iterable[Stretch], marks: Iterable[tuple[float, str, str]], since: float, now: float,
         label: str) -> Html:  # fmt: skip
    """The stretches side by side from `since` to `now`; a mark is when, its kind and its title."""
    scale = WIDTH / (now - since)
    boxes = [
        tag("rect", tag("title", one.title), class_=one.mood, y="3", height=f"{BAND_HEIGHT - 6:g}",
            x=f"{(max(one.start, since) - since) * scale:.2f}",
            width=f"{max(0.6, (min(one.end, now) - max(one.start, since)) * scale):.2f}")
        for one in stretches
        if one.end > since
    ]  # fmt: skip
    ticks = [
        tag("rect", tag("title", title), class_=f"mark {kind}", x=f"{(at - since) * scale - 0.5:.2f}", y="0", width="1",
            height=f"{BAND_HEIGHT:g}")
        for at, kind, title in marks
        if at >= since
    ]  # fmt: skip
    box = f"0 0 {WIDTH:g} {BAND_HEIGHT:g}"
    return tag("svg", joined(boxes), joined(ticks), class_="band", viewBox=box, preserveAspectRatio="none", role="img",
               aria_label=label)  # fmt: skip
