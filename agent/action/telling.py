"""What people are told of deployments without asking, when, and in which words (pure: times are arguments).

Troubles of one moment are one message. A trouble that comes again and again is told once and then counted; one that
stays is told again after a while. Every trouble that was told is also told to be over, unless a person ended it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum

from agent.action.record import Deployment, State
from agent.action.store import Event
from agent.quantity import counted, say_duration

MOST_LINES = 20
"""More would not be read, and some services cut a message in the middle of a word."""


class Weight(IntEnum):
    """How much a message matters, the heaviest last."""

    INFO = 0
    GOOD = 1
    WARNING = 2
    CRITICAL = 3


TROUBLES = {
    State.STALLED: Weight.WARNING,
    State.ZOMBIE: Weight.WARNING,
    State.DEAD: Weight.WARNING,
    State.UNOBSERVABLE: Weight.CRITICAL,
    State.FAILED: Weight.CRITICAL,
    State.QUARANTINED: Weight.CRITICAL,
}
STANDING = frozenset({State.UNOBSERVABLE, State.FAILED, State.QUARANTINED})
"""Nothing mends these but a person, or what a person has to look for."""
PATIENCE_S = {State.UNOBSERVABLE: 300.0}
"""A busy engine misses a look now and then, and one that has just ended refuses the last one: nobody is woken for that.
As long as the rule of Prometheus for it waits."""
NORMAL = frozenset({State.READY, State.BUSY, State.ASLEEP})


@dataclass(frozen=True, slots=True)
class Message:
    """One message, ready to be sent."""

    title: str
    body: str
    weight: Weight


@dataclass(frozen=True, slots=True)
class Manners:
    """`group_s`: how long a first line waits for others. `repeat_s`: how long a trouble of the same kind is not told
    again. `title` and `body` are templates over `host`, `summary`, `lines`, `count` and `weight`."""

    host: str
    group_s: float
    repeat_s: float
    title: str = "{host}: {summary}"
    body: str = "{lines}"


@dataclass(frozen=True, slots=True)
class Line:
    slug: str
    weight: Weight
    summary: str
    text: str


@dataclass(slots=True)
class Trouble:
    """A deployment that is not well since `since`. `told`: somebody was told, so its end is told too."""

    state: State
    since: float
    told: bool


class Digest:
    """Makes few messages of many events. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._open: dict[str, Trouble] = {}
        self._told: dict[tuple[str, State], float] = {}
        self._untold: Counter[tuple[str, State]] = Counter()
        self._waiting: dict[str, tuple[Event, State, float]] = {}
        """Troubles that are not told before they have lasted, and since when they do."""
        self._hosts: dict[str, float] = {}
        """Troubles of the host, and when each was told."""
        self._lines: list[Line] = []
        self._since: float | None = None

    def adopt(self, records: Iterable[Deployment], now: float) -> None:
        """Troubles from before a restart of the agent were told then; their end and their staying are still to tell."""
        for record in records:
            if record.state in TROUBLES or record.fault is not None:
                self._open[record.slug] = Trouble(record.state, now, told=True)
                self._told[(record.slug, record.state)] = now

    def see(self, event: Event, now: float, manners: Manners) -> None:
        """Take one event; all but changes of state and troubles of the host are passed over."""
        if event.kind == "host":
            self._host(event, now, manners)
            return
        state = event.data.get("to") if event.kind == "state" else None
        if state not in list(State):
            return
        state = State(str(state))
        _, was, since = self._waiting.pop(event.slug, (event, state, now))
        if state in PATIENCE_S:
            self._waiting[event.slug] = (event, state, since if was is state else now)
        elif state in TROUBLES:
            self._worse(event, state, now, now, manners)
        elif state in NORMAL:
            self._better(event, now)
        elif state is State.STOPPED:
            self._open.pop(event.slug, None)

    def _host(self, event: Event, now: float, manners: Manners) -> None:
        """What no start of an engine can mend, once for all deployments that it concerns: engines still run then."""
        last = self._hosts.get(event.text)
        if last is not None and now - last < manners.repeat_s:
            return
        self._hosts[event.text] = now
        said = "the host needs a person before the next start of an engine"
        self._add(Line(event.slug, Weight.CRITICAL, said, f"{said}: {event.text}"), now)

    def _worse(self, event: Event, state: State, since: float, now: float, manners: Manners) -> None:
        slug, key = event.slug, (event.slug, state)
        trouble = self._open.setdefault(slug, Trouble(state, since, told=False))
        trouble.state = state
        last = self._told.get(key)
        if last is not None and now - last < manners.repeat_s:
            self._untold[key] += 1
            return
        again = f" ({counted(self._untold.pop(key), 'more time')} since it was told last)" if self._untold[key] else ""
        self._told[key], trouble.told = now, True
        self._add(Line(slug, TROUBLES[state], f"{slug} is {state}", f"{slug} is {state}: {event.text}{again}"), now)

    def _better(self, event: Event, now: float) -> None:
        trouble = self._open.pop(event.slug, None)
        if trouble is None or not trouble.told:
            return
        lasted = say_duration(timedelta(seconds=now - trouble.since))
        said = f"{event.slug} is back to normal"
        self._add(Line(event.slug, Weight.GOOD, said, f"{said} after {lasted}: {event.text}"), now)

    def _add(self, line: Line, now: float) -> None:
        self._lines.append(line)
        self._since = now if self._since is None else self._since

    def _still(self, slug: str, state: State, now: float) -> Line:
        lasted = say_duration(timedelta(seconds=now - self._open[slug].since))
        said = f"{slug} is still {state}"
        return Line(slug, TROUBLES[state], said, f"{said}, for {lasted}: agentctl status {slug}")

    def due(self, manners: Manners) -> float | None:
        """When `take` has something, as far as is known now."""
        times = [self._told[key] + manners.repeat_s for key in self._standing()]
        times += [since + PATIENCE_S[state] for _, state, since in self._waiting.values()]
        if self._since is not None:
            times.append(self._since + manners.group_s)
        return min(times, default=None)

    def _standing(self) -> list[tuple[str, State]]:
        keys = [(slug, one.state) for slug, one in self._open.items() if one.told and one.state in STANDING]
        return [key for key in keys if key in self._told]

    def take(self, now: float, manners: Manners) -> Message | None:
        """The message that is due now, if one is."""
        for event, state, since in list(self._waiting.values()):
            if now - since >= PATIENCE_S[state]:
                del self._waiting[event.slug]
                self._worse(event, state, since, now, manners)
        for slug, state in self._standing():
            if now - self._told[(slug, state)] >= manners.repeat_s:
                self._told[(slug, state)] = now
                self._add(self._still(slug, state, now), now - manners.group_s)
        if self._since is None or now < self._since + manners.group_s:
            return None
        lines, self._lines, self._since = self._lines, [], None
        return message(lines, manners)


def message(lines: list[Line], manners: Manners) -> Message:
    """One message of all lines, with the weight of the heaviest."""
    heaviest = max(lines, key=lambda line: line.weight)
    slugs = {line.slug for line in lines}
    others = f" and {len(slugs) - 1} more" if len(slugs) > 1 else ""
    shown = [line.text for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        shown.append(f"and {len(lines) - MOST_LINES} more: agentctl events")
    # what is over within one message is told by its last word
    last = lines[-1] if len(slugs) == 1 else heaviest
    words = {
        "host": manners.host,
        "summary": f"{last.summary}{others}",
        "lines": "\n".join(shown),
        "count": len(lines),
        "weight": heaviest.weight.name.lower(),
    }
    return Message(manners.title.format_map(words), manners.body.format_map(words), last.weight)
