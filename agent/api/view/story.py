"""The time line of one deployment: its states as a band over the last hour, and what happened as a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from agent.action.record import Deployment
from agent.action.store import Event
from agent.api.view.html import Html, joined, tag
from agent.api.view.plot import Stretch, band
from agent.api.view.words import GOOD, SIGNS, moment, mood, span
from agent.quantity import counted

HOUR_S = 3600.0
FIRST_SHOWN = 5
MOST_SHOWN = 40
SERVES = frozenset(state.value for state in GOOD)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the list. `kind` is a mood, `incident`, `restart` or `asked`."""

    at: float
    kind: str
    what: str
    text: str


def story(record: Deployment, events: Sequence[Event], now: float) -> Html:
    """Band and list; `events` are the last ones of this deployment, oldest first."""
    past = list(entries(events))
    since = now - HOUR_S
    marks = [(one.at, one.kind, f"{one.what}, {clock(one.at)}") for one in past if one.kind in ("incident", "restart")]
    drawn = band(stretches(record, events, now), marks, since, now, summary(record, marks, since, now))
    return joined(
        [
            tag("h3", "Last hour"),
            drawn,
            tag("p", tag("span", "1 h ago"), tag("span", "now"), class_="axis", aria_hidden="true"),
            told([one for one in reversed(past) if one.kind != "restart"][:MOST_SHOWN], now),
        ]
    )


def told(newest: Sequence[Entry], now: float) -> Html:
    """The newest first; older ones behind a fold."""
    if not newest:
        return tag("p", "Nothing has happened yet.", class_="quiet")
    lines = [entry(one, now) for one in newest]
    first = tag("ol", *lines[:FIRST_SHOWN], class_="story")
    if len(lines) <= FIRST_SHOWN:
        return first
    rest = lines[FIRST_SHOWN:]
    older = tag("details", tag("summary", f"{len(rest)} earlier"), tag("ol", *rest, class_="story"))
    return joined([first, older])


def entry(one: Entry, now: float) -> Html:
    sign = tag("span", SIGNS.get(one.kind, "◆"), class_=f"sign {one.kind}", aria_hidden="true")
    rest = one.text.removeprefix(one.what)  # "ready, nothing runs" says its state itself
    gap = "" if rest != one.text else " "
    return tag("li", moment(one.at, now), sign, tag("span", tag("strong", one.what), f"{gap}{rest}"))


def entries(events: Sequence[Event]) -> Iterator[Entry]:
    """What a person wants to know: changes of state, kept evidence, wishes; not every single step."""
    for event in events:
        if event.kind == "asked":
            # who asked, and from where, is for those who may ask
            yield Entry(event.at, "asked", "asked", f"for {event.data.get('what', 'something')}")
        elif event.kind == "state" and not flips(event):
            state = str(event.data.get("to", ""))
            yield Entry(event.at, mood(state), state, event.text)
        elif event.kind == "step" and event.data.get("step") == "SaveEvidence":
            yield Entry(event.at, "incident", "incident", event.text)
        elif event.kind == "step" and event.data.get("step") == "Start":
            yield Entry(event.at, "restart", "start", event.text)


def flips(event: Event) -> bool:
    """Between ready and busy, as with every request."""
    return event.data.get("to") in SERVES and event.data.get("from") in SERVES


def stretches(record: Deployment, events: Sequence[Event], now: float) -> Iterator[Stretch]:
    """Neighbours of one mood as one; nothing before the first event that is known."""
    changes = [event for event in events if event.kind == "state"]
    first = str(changes[0].data.get("from")) if changes else record.state.value
    pieces = [(events[0].at if changes else record.since, first)]
    pieces += [(event.at, str(event.data.get("to"))) for event in changes]
    joint = [next(same) for _, same in groupby(pieces, key=lambda piece: mood(piece[1]))]
    ends = [*(at for at, _ in joint[1:]), now]
    for (at, name), end in zip(joint, ends, strict=True):
        yield Stretch(at, end, mood(name), f"{'serving' if name in SERVES else name}, {clock(at)} to {clock(end)}")


def summary(record: Deployment, marks: Sequence[tuple[float, str, str]], since: float, now: float) -> str:
    """The band in words."""
    seen = [kind for at, kind, _ in marks if at >= since]
    starts, kept = some(seen.count("restart"), "start"), some(seen.count("incident"), "incident")
    return f"States of the last hour: {starts}, {kept}; {record.state.value} for {span(now - record.since)}"


def some(number: int, noun: str) -> str:
    return counted(number, noun) if number else f"no {noun}s"


def clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
