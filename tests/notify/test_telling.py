"""What is told when: tables of events and times, no clock and no service."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent.action.record import Deployment, Fault, State
from agent.action.store import Event
from agent.action.telling import MOST_LINES, TROUBLES, Digest, Manners, Message, Weight
from agent.verdict.model import Remedy

MANNERS = Manners("rig", group_s=10.0, repeat_s=3600.0)
Step = tuple[float, str, str]
"""When, which deployment, its new state."""


def state(slug: str, to: str) -> Event:
    return Event(0.0, slug, "state", f"why {to}", {"from": "x", "to": to})


def told(steps: Sequence[Step], until: float = 100_000.0, digest: Digest | None = None) -> list[tuple[float, Message]]:
    """Every message and when it was due, as a loop that always wakes in time would see them."""
    digest, found, left = digest or Digest(), [], list(steps)
    while True:
        due = digest.due(MANNERS)
        at = min(left[0][0] if left else until, due if due is not None else until)
        if at >= until:
            return found
        while left and left[0][0] <= at:
            when, slug, to = left.pop(0)
            digest.see(state(slug, to), when, MANNERS)
        if (message := digest.take(at, MANNERS)) is not None:
            found.append((at, message))


def test_a_trouble_and_its_end_are_two_messages() -> None:
    """The second says how long it lasted."""
    found = told([(0, "demo", "stalled"), (3, "demo", "stopping"), (63, "demo", "starting"), (120, "demo", "ready")])
    assert [(at, one.title, one.weight) for at, one in found] == [
        (10, "rig: demo is stalled", Weight.WARNING),
        (130, "rig: demo is back to normal", Weight.GOOD),
    ]
    assert found[0][1].body == "demo is stalled: why stalled"
    assert found[1][1].body == "demo is back to normal after 2 min: why ready"


def test_what_is_over_at_once_is_one_message_that_says_so() -> None:
    """Nobody is woken for what has mended itself within the time of a group."""
    [(at, message)] = told([(0, "demo", "dead"), (5, "demo", "ready")])
    assert (at, message.title, message.weight) == (10, "rig: demo is back to normal", Weight.GOOD)
    assert message.body.splitlines()[0] == "demo is dead: why dead"


def test_troubles_of_one_moment_are_one_message_of_the_heaviest() -> None:
    """A host that loses its cards does not send a message a deployment."""
    [(_, message)] = told([(0, "a", "stalled"), (1, "b", "quarantined"), (2, "c", "dead")], until=60)
    assert message.title == "rig: b is quarantined and 2 more"
    assert message.weight is Weight.CRITICAL
    assert len(message.body.splitlines()) == 3


def test_a_trouble_that_comes_again_is_counted_not_told() -> None:
    """Once an hour at most, with how often it came in between; ends of the untold ones are not told either."""
    steps = [(at, "demo", to) for n in range(5) for at, to in ((n * 600.0, "stalled"), (n * 600.0 + 60, "ready"))]
    steps += [(4000.0, "demo", "stalled")]
    found = told(steps, until=5000)
    assert [at for at, _ in found] == [10, 70, 4010]
    assert found[2][1].body == "demo is stalled: why stalled (4 more times since it was told last)"


def test_another_trouble_is_told_also_within_the_hour() -> None:
    """Quiet is for the same thing over again."""
    found = told([(0, "demo", "stalled"), (600, "demo", "quarantined")], until=1000)
    assert [one.weight for _, one in found] == [Weight.WARNING, Weight.CRITICAL]


def test_a_look_that_is_missed_wakes_nobody_and_one_that_stays_away_does() -> None:
    """An end refuses the last look first: that is told as the end that it is."""
    assert told([(0, "demo", "unobservable"), (20, "demo", "busy"), (400, "demo", "unobservable")], until=600) == []
    [(at, message)] = told([(0, "demo", "unobservable"), (2, "demo", "dead")], until=600)
    assert (at, message.title) == (12, "rig: demo is dead")
    steps = [(0.0, "demo", "unobservable"), (100.0, "demo", "unobservable"), (400.0, "demo", "busy")]
    first, second = told(steps, until=3000)
    assert (first[0], first[1].title, first[1].weight) == (310, "rig: demo is unobservable", Weight.CRITICAL)
    assert second[1].body.startswith("demo is back to normal after 6 min")
    assert len(told([(0, "demo", "unobservable")], until=3600 + 400)) == 2, "it is told again while it lasts"


def test_what_stays_broken_is_told_again() -> None:
    """A quarantine at night is not forgotten in the morning."""
    found = told([(0, "demo", "quarantined")], until=8000)
    assert [at for at, _ in found] == [10, 3600, 7200]
    assert found[2][1].body == "demo is still quarantined, for 2 h: agentctl status demo"


def test_a_person_who_stops_it_needs_no_message() -> None:
    """Neither that it is over nor that it stays."""
    assert len(told([(0, "demo", "quarantined"), (60, "demo", "stopped")])) == 1


@pytest.mark.parametrize("quiet", [one for one in State if one not in TROUBLES])
def test_healthy_ways_are_quiet(quiet: State) -> None:
    """Every other state by itself is nothing to tell."""
    assert told([(0, "demo", quiet.value), (60, "demo", "ready"), (70, "demo", "busy")]) == []


@pytest.mark.parametrize("trouble", list(TROUBLES))
def test_every_trouble_is_told(trouble: State) -> None:
    """With the reason that the agent gave."""
    [(_, message)] = told([(0, "demo", trouble.value)], until=400)
    assert message.body == f"demo is {trouble.value}: why {trouble.value}"


def test_other_events_are_passed_over() -> None:
    """Steps, wishes, and what the agent says of itself: telling of a failed telling would never end."""
    digest = Digest()
    for kind in ("step", "asked", "agent"):
        digest.see(Event(0.0, "demo", kind, "text", {"to": "stalled"}), 0.0, MANNERS)
    digest.see(Event(0.0, "demo", "state", "text", {"to": "melted"}), 0.0, MANNERS)
    assert digest.due(MANNERS) is None


def test_after_a_restart_of_the_agent_the_end_is_still_told() -> None:
    """The trouble itself was told by the agent before; one that stays is told again in its time."""
    digest = Digest()
    fault = Fault("busy", "why", Remedy.RESTART, at=0.0)
    records = [Deployment("a", "p", state=State.STARTING, fault=fault), Deployment("b", "p", state=State.FAILED),
               Deployment("c", "p", state=State.READY)]  # fmt: skip
    digest.adopt(records, now=0.0)
    found = told([(50, "a", "ready"), (50, "c", "busy")], until=4000, digest=digest)
    assert [(at, one.title) for at, one in found] == [
        (60, "rig: a is back to normal"),
        (3600, "rig: b is still failed"),
    ]


def test_a_flood_is_cut() -> None:
    """With how much was left out."""
    [(_, message)] = told([(0, f"d{number:02}", "dead") for number in range(50)], until=100)
    assert len(message.body.splitlines()) == MOST_LINES + 1
    assert message.body.endswith(f"and {50 - MOST_LINES} more: agentctl events")


def test_templates_are_the_sites_own() -> None:
    """Words of the site around the agent's."""
    digest = Digest()
    own = Manners("rig", 0.0, 3600.0, title="[{weight}] {summary}", body="{count} on {host}:\n{lines}")
    digest.see(state("demo", "failed"), 0.0, own)
    message = digest.take(0.0, own)
    assert message == Message("[critical] demo is failed", "1 on rig:\ndemo is failed: why failed", Weight.CRITICAL)
