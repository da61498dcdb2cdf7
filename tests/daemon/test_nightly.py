"""When a schedule falls due in the nights in which clocks are put on or set back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from agent.daemon.nightly import Nightly, trigger_of

MINUTE = timedelta(minutes=1)


def falls_due(cron: str, day: str, hours: int = 24) -> list[str]:
    """UTC times of the day after this noon in Berlin, as the scheduler asks for them."""
    trigger, now = trigger_of(cron, "Europe/Berlin"), datetime.fromisoformat(f"{day}T11:00:00+00:00")
    found: list[str] = []
    end, before = now + timedelta(hours=hours), None
    while (at := trigger.get_next_fire_time(before, now)) is not None and at < end:
        found.append(f"{at.astimezone(UTC):%H:%M}")
        before, now = at, at.astimezone(UTC) + timedelta(microseconds=1)
    return found


@pytest.mark.parametrize(
    ("cron", "day", "expect"),
    [
        ("30 2 * * *", "2026-06-01", ["00:30"]),
        ("30 2 * * *", "2026-03-28", ["01:30"]),
        ("30 2 * * *", "2026-10-24", ["00:30"]),
        ("0 3 * * *", "2026-03-28", ["01:00"]),
        ("0 3 * * *", "2026-10-24", ["02:00"]),
        ("0,30 1-3 * * sun", "2026-10-24", ["23:00", "23:30", "00:00", "00:30", "02:00", "02:30"]),
        ("30 */12 * * *", "2026-10-24", ["22:30"]),
        ("30 */2 * * sun", "2026-03-28", ["23:30", "01:30", "02:30", "04:30", "06:30", "08:30", "10:30"]),
    ],
    ids=["any night", "the hour that is left out", "the hour that comes twice", "after it, in spring",
         "after it, in autumn", "several", "every twelfth hour", "every second hour"],
)  # fmt: skip
def test_a_named_hour_falls_due_once_a_night(cron: str, day: str, expect: list[str]) -> None:
    """As with cron, whatever the clocks are set to."""
    assert falls_due(cron, day) == expect


def test_every_hour_is_every_hour() -> None:
    """Also the one that comes twice."""
    assert len(falls_due("0 * * * *", "2026-10-24")) == len(falls_due("0 * * * *", "2026-06-01"))


def test_what_was_missed_is_asked_for_from_the_last_time_on() -> None:
    """The scheduler decides what a round is worth that comes late."""
    last = datetime(2026, 6, 1, 2, 0, tzinfo=UTC)
    due = Nightly("0 2 * * *", UTC).get_next_fire_time(last, last + timedelta(days=3))
    assert due == last + timedelta(days=1)


def test_a_time_that_never_comes_falls_due_never() -> None:
    assert trigger_of("0 2 31 2 *", "Europe/Berlin").get_next_fire_time(None, datetime(2026, 6, 1, tzinfo=UTC)) is None


def every_minute(where: ZoneInfo, begin: datetime, days: int) -> Iterator[tuple[datetime, datetime]]:
    """What clocks show and when they first do, of each minute; one that they leave out is as late as it would be."""
    last = begin.astimezone(where).replace(tzinfo=None) - MINUTE
    for now in (begin + minute * MINUTE for minute in range(days * 24 * 60)):
        shown = now.astimezone(where).replace(tzinfo=None)
        yield from ((last + (late + 1) * MINUTE, now + late * MINUTE) for late in range((shown - last) // MINUTE - 1))
        if shown > last:
            yield shown, now
        last = max(last, shown)


DATES = ["2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01"]
"""Of jumps, and of none: each zone has its own."""
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Nuuk", "Asia/Beirut", "America/Havana",
         "Antarctica/Troll", "Asia/Kolkata"]  # fmt: skip


@pytest.mark.parametrize("day", DATES)
@pytest.mark.parametrize("zone", ZONES)
def test_it_falls_due_when_clocks_first_show_a_time_whenever_it_is_asked(zone: str, day: str) -> None:
    """Against a walk through the minutes: an agent may start, and a person may ask, within an hour that comes twice."""
    begin = datetime.fromisoformat(f"{day}T00:00:00+00:00") - timedelta(days=1)
    minutes = list(every_minute(ZoneInfo(zone), begin, 4))
    for hours in ({2}, {1, 2}, {23}, {0, 3}):
        for past in ({30}, {0}, {15, 45}):
            due = sorted(when for shown, when in minutes if shown.hour in hours and shown.minute in past)
            trigger = trigger_of(f"{spelled(past)} {spelled(hours)} * * *", zone)
            for now in (begin + timedelta(minutes=20 * step) for step in range(2 * 24 * 3)):
                found = trigger.get_next_fire_time(None, now)
                assert found is not None
                assert found.astimezone(UTC) == next(when for when in due if when >= now), (hours, past, now)


def spelled(numbers: set[int]) -> str:
    return ",".join(map(str, sorted(numbers)))
