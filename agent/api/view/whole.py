"""The whole page: its parts by their ids, and the document around them."""

from __future__ import annotations

import platform
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from agent.action.store import Event
from agent.api.desk import Desk
from agent.api.view.deployment import deployment, part_id
from agent.api.view.host import host
from agent.api.view.html import Html, joined, tag
from agent.api.view.words import SIGNS, mood
from agent.metrics.board import Board
from agent.version import VERSION

MOST_EVENTS = 1000
"""An hour of a busy engine, whose every request is a change between ready and busy."""
WORDS = {
    "good": "serving",
    "work": "on the way",
    "doubt": "in doubt",
    "bad": "broken",
    "rest": "at rest",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """The page at one moment. `said` changes only with a state: what a screen reader speaks."""

    title: str
    said: str
    parts: Mapping[str, Html]


class Chronicle:
    """The last events of each deployment for one viewer; each is read from the store once."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._events: dict[str, deque[Event]] = {}

    async def of(self, slug: str) -> tuple[Event, ...]:
        known = self._events.setdefault(slug, deque(maxlen=MOST_EVENTS))
        known.extend(await self._desk.past_events(slug, known[-1].seq if known else 0, MOST_EVENTS))
        return tuple(known)


async def shown(desk: Desk, chronicle: Chronicle) -> Shown:
    """The parts in their order: what is wrong first would move under a reader's eyes, so by name."""
    snapshot, boards = desk.snapshot(), [desk.boards[slug] for slug in sorted(desk.boards)]
    stories = {board.record.slug: await chronicle.of(board.record.slug) for board in boards}
    now = time.time()
    parts: dict[str, Html] = {"overall": overall(boards)}
    for board in boards:
        slug = board.record.slug
        parts[part_id(slug)] = deployment(board, snapshot.trails.get(slug, ()), stories[slug], now)
    if not boards:
        parts["empty"] = tag("p", "Nothing is deployed: ", tag("code", "agentctl deploy SLUG"), id="empty")
    parts["host"] = host(snapshot)
    said = "; ".join(f"{board.record.slug} is {board.record.state.value}" for board in boards)
    return Shown(title(boards), said or "Nothing is deployed", parts)


def overall(boards: list[Board]) -> Html:
    """How many of which mood; the worst decides the colour."""
    counts = Counter(mood(board.record.state) for board in boards)
    chips = [
        tag("li", tag("span", SIGNS[kind], aria_hidden="true"), f" {counts[kind]} {word}", class_=f"badge {kind}")
        for kind, word in WORDS.items()
        if counts[kind]
    ]
    return tag("ul", *chips, id="overall", aria_label="All deployments")


def title(boards: list[Board]) -> str:
    """In a tab among many, what is wrong comes first."""
    wrong = [board for board in boards if mood(board.record.state) == "bad"]
    if wrong:
        return f"✖ {wrong[0].record.slug} {wrong[0].record.state.value} – recipe-agent"
    return f"recipe-agent on {platform.node()}"


def document(now: Shown, version: str) -> str:
    """The page for a browser, with or without scripts."""
    return "<!doctype html>\n" + tag("html", head(now), body(now), lang="en", data_version=version)


def head(now: Shown) -> Html:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("noscript", tag("meta", http_equiv="refresh", content="10")),
        tag("title", now.title),
        tag("link", rel="icon", href="/assets/icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href="/assets/page.css"),
        tag("script", src="/assets/page.js", defer=True),
    )


def body(now: Shown) -> Html:
    at = time.strftime("%H:%M:%S UTC", time.gmtime())
    return tag(
        "body",
        tag("a", "Skip to the deployments", href="#main", class_="skip"),
        tag(
            "header",
            tag("h1", "recipe-agent ", tag("small", platform.node())),
            now.parts["overall"],
            tag("p", f"As of {at}", id="live"),
            class_="top",
        ),
        tag("p", id="said", class_="unseen", role="status"),
        tag("main", joined(part for key, part in now.parts.items() if key != "overall"), id="main", tabindex="-1"),
        tag(
            "footer",
            tag("p", f"recipe-agent {VERSION}. Times are UTC. ", tag("a", "Metrics", href="/metrics")),
        ),
    )
