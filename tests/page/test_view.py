"""The page's parts without a daemon: escaping, plots, numbers, the time line."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from agent.action.record import Deployment, State
from agent.action.store import Event
from agent.api.view.html import Html, tag
from agent.api.view.plot import Axis, Line, ceiling, plot
from agent.api.view.story import entries, story, stretches
from agent.api.view.words import count, mood, percent, span
from agent.clock import timestamp

NOW = 1_800_000_000.0
RECORD = Deployment("demo", "p1", state=State.READY, since=NOW - 600)


def change(at: float, before: str, after: str, text: str = "why") -> Event:
    return Event(at, "demo", "state", text, {"from": before, "to": after}, seq=int(at))


def test_text_is_escaped_and_markup_is_not() -> None:
    """A sentence of an engine's log is text, whatever it says."""
    made = tag("p", "<script>alert('x')</script>", tag("b", "&"), title='"><img>')
    assert "<script>" not in made
    assert "<b>&amp;</b>" in made
    assert 'title="&quot;&gt;&lt;img&gt;"' in made


def test_a_slug_with_markup_stays_text() -> None:
    """In the whole story of a deployment."""
    shown = story(replace(RECORD, slug="<i>"), [change(NOW - 5, "ready", "stalled", "<b>moved</b>")], NOW)
    assert "<b>moved" not in shown
    assert "&lt;b&gt;moved" in shown


def test_every_state_has_a_mood() -> None:
    """Also those that are on their way."""
    assert {mood(state) for state in State} == {"good", "bad", "doubt", "rest", "work"}
    assert [state for state in State if mood(state) == "bad"] == [
        State.STALLED,
        State.ZOMBIE,
        State.DEAD,
        State.FAILED,
        State.QUARANTINED,
    ]


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (count(None), "unknown"),
        (count(0.0), "0"),
        (count(2.25), "2.2"),
        (count(1234.6), "1,235"),
        (percent(None), "unknown"),
        (percent(0.0), "0%"),
        (percent(0.012), "1.2%"),
        (percent(0.87), "87%"),
        (span(-1), "0 s"),
        (span(59.4), "59 s"),
        (span(3599), "59 min"),
        (span(7500), "2 h 5 min"),
        (span(200_000), "2 d 7 h"),
        (f"{ceiling([None, 3.0], 10)}", "10"),
        (f"{ceiling([26.0], 10):g}", "50"),
        (f"{ceiling([480.0, None], 10):g}", "500"),
    ],
)
def test_numbers_read_well(shown: str, wanted: str) -> None:
    """Unknown is a word, and a scale ends in a round number."""
    assert shown == wanted


def paths(drawn: Html) -> list[str]:
    return re.findall(r'class="line first" d="([^"]+)"', drawn)


def test_a_gap_breaks_the_line() -> None:
    """What was not known is not drawn: neither as zero nor as a bridge."""
    spots = [(NOW - 60, 1.0), (NOW - 55, 2.0), (NOW - 50, None), (NOW - 45, 3.0), (NOW - 5, 4.0)]
    drawn = paths(plot([Line(spots, 4.0)], Axis(NOW), "x"))
    assert len(drawn) == 3, "an unknown value breaks, and so does a long silence"
    assert drawn[0].startswith("M280.0 ")


def test_the_plot_stays_in_its_box() -> None:
    """Values above the scale and points outside the time are not drawn outside."""
    spots = [(NOW - 2000, 1.0), (NOW - 10, 99.0), (NOW, -5.0)]
    numbers = [float(number) for path in paths(plot([Line(spots, 4.0)], Axis(NOW), "x")) for number in
               re.findall(r"[\d.]+", path)]  # fmt: skip
    assert numbers
    assert all(0 <= number <= 300 for number in numbers)
    assert all(0 <= number <= 60 for number in numbers[1::2])


def test_the_list_leaves_out_what_every_request_does() -> None:
    """Ready and busy in turn is serving; faults, evidence and wishes are told."""
    events = [
        change(NOW - 50, "ready", "busy"),
        change(NOW - 40, "busy", "ready"),
        change(NOW - 30, "busy", "stalled"),
        Event(NOW - 29, "demo", "step", "keeps the evidence", {"step": "SaveEvidence"}),
        Event(NOW - 28, "demo", "step", "asks one token", {"step": "AskCanary"}),
        Event(NOW - 20, "demo", "asked", "restart asked by alice from 192.0.2.7", {"what": "restart"}),
    ]
    assert "alice" not in story(RECORD, events, NOW), "the page is open to everybody"
    assert [(one.kind, one.what) for one in entries(events)] == [
        ("bad", "stalled"),
        ("incident", "incident"),
        ("asked", "asked"),
    ]


def test_the_band_has_no_hole_and_invents_no_past() -> None:
    """One stretch ends where the next begins; before the first event there is none."""
    events = [
        Event(NOW - 100, "demo", "asked", "deploy", {}),
        change(NOW - 99, "pending", "starting"),
        change(NOW - 90, "starting", "ready"),
        change(NOW - 80, "ready", "busy"),
        change(NOW - 20, "busy", "stalled"),
    ]
    found = list(stretches(RECORD, events, NOW))
    assert [one.mood for one in found] == ["work", "good", "bad"]
    assert (found[0].start, found[-1].end) == (NOW - 100, NOW)
    assert all(one.end == after.start for one, after in pairwise(found))


def test_times_say_their_day_when_it_is_not_today() -> None:
    """An incident of last week is not one of this morning."""
    shown = story(RECORD, [change(NOW - 3 * 86_400, "ready", "stalled")], NOW)
    assert timestamp(NOW - 3 * 86_400) in shown
    assert re.search(r">\d\d \w{3} \d\d:\d\d<", shown)
