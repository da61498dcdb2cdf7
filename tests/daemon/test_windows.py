"""Maintenance windows: open for as long as they say, in the zone that the site names."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from pydantic import ValidationError

from agent.daemon.windows import Windows
from agent.settings.model import Maintenance


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("when", "is_open"),
    [
        ("2026-12-06 02:59:59", False),
        ("2026-12-06 03:00:00", True),
        ("2026-12-06 04:59:59", True),
        ("2026-12-06 05:00:00", False),
        ("2026-12-07 03:30:00", False),
    ],
)
def test_a_window_is_open_from_its_time_for_its_length(when: str, is_open: bool) -> None:
    """Sundays at three, for two hours."""
    windows = Windows(Maintenance(windows=("0 3 * * sun",)))
    assert (windows.closed(at(when)) == "") is is_open


def test_an_open_window_says_when_it_began() -> None:
    """The latest of several that overlap: what was done in the one may be done in the next."""
    windows = Windows(Maintenance(windows=("0 3 * * *", "0 4 * * sun")))
    assert windows.opened(at("2026-12-06 02:59")) is None
    assert windows.opened(at("2026-12-06 03:59")) == at("2026-12-06 03:00")
    assert windows.opened(at("2026-12-06 04:30")) == at("2026-12-06 04:00")
    assert windows.opened(at("2026-12-06 06:00")) is None
    assert Windows(Maintenance()).opened(at("2026-12-06 03:30")) is None


def test_a_closed_window_says_when_the_next_opens_in_the_sites_zone() -> None:
    windows = Windows(Maintenance(windows=("0 3 * * sun", "30 22 * * fri"), timezone="Europe/Berlin"))
    assert windows.closed(at("2026-12-01 12:00", "Europe/Berlin")).endswith("opens 2026-12-04 22:30+01:00")


def test_without_windows_it_is_always_time() -> None:
    assert Windows(Maintenance()).closed(at("2026-12-01 12:00")) == ""


@pytest.mark.parametrize("bad", [{"windows": ("at night",)}, {"windows": ("0 25 * * *",)}, {"timezone": "Mars/Base"}])
def test_what_is_no_window_is_refused_with_the_site_file(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Maintenance.model_validate(bad)


def test_a_host_without_a_time_zone_database_has_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small images come without one, and the default must not need it."""

    def missing(name: str) -> ZoneInfo:
        raise ZoneInfoNotFoundError(f"No time zone found with key {name}")

    wall = at("2026-12-06 03:00:00")
    monkeypatch.setattr("zoneinfo.ZoneInfo", missing)
    assert Windows(Maintenance()).closed(wall) == ""
    assert Windows(Maintenance(windows=("0 3 * * sun",))).closed(wall) == ""
    with pytest.raises(ValidationError, match="no time zone of this host"):
        Maintenance(timezone="Europe/Berlin")


@pytest.mark.parametrize("day", ["0", "1-5", "mon,3", "7"])
def test_a_weekday_as_a_number_is_refused(day: str) -> None:
    """Cron counts from Sunday, the scheduler from Monday: a window on the wrong day cuts off an engine that serves."""
    with pytest.raises(ValidationError, match="write sun or mon"):
        Maintenance(windows=(f"0 3 * * {day}",))
    Maintenance(windows=("0 3 * * mon-fri", "0 3 * * */2", "0 3 1 1 *"))


BERLIN, NEW_YORK, LORD_HOWE, NUUK = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Nuuk"


def stretches(windows: Windows, noon: str) -> list[tuple[str, str]]:
    """From when to when they are open in the day from this UTC time on, asked every five minutes."""
    begin, was, found = datetime.fromisoformat(f"{noon}:00+00:00"), False, list[list[str]]()
    for minute in range(0, 24 * 60, 5):
        at_minute = begin + timedelta(minutes=minute)
        wall = at_minute.timestamp()
        opened, is_open = windows.opened(wall), windows.closed(wall) == ""
        assert (opened is not None) is is_open
        if is_open and not was:
            found.append([f"{at_minute:%H:%M}", ""])
        if was and not is_open:
            found[-1][1] = f"{at_minute:%H:%M}"
        was = is_open
    return [(opened_at, closed_at) for opened_at, closed_at in found]


@pytest.mark.parametrize(
    ("zone", "noon", "cron", "minutes", "expect"),
    [
        # at 01:00 UTC three becomes two
        (BERLIN, "2026-10-24T12:00", "30 2 * * *", 15, ("00:30", "00:45")),
        (BERLIN, "2026-10-24T12:00", "30 2 * * *", 60, ("00:30", "01:30")),
        (BERLIN, "2026-10-24T12:00", "30 2 * * *", 120, ("00:30", "02:30")),
        (BERLIN, "2026-10-24T12:00", "30 1 * * *", 90, ("23:30", "01:00")),
        (BERLIN, "2026-10-24T12:00", "45 1 * * *", 60, ("23:45", "00:45")),
        (BERLIN, "2026-10-24T12:00", "0 1 * * *", 240, ("23:00", "03:00")),
        (BERLIN, "2026-10-24T12:00", "0 23 * * *", 300, ("21:00", "02:00")),
        (BERLIN, "2026-10-24T12:00", "*/15 2 * * *", 15, ("00:00", "01:00")),
        (BERLIN, "2026-10-24T12:00", "0 3 * * *", 30, ("02:00", "02:30")),
        # at 01:00 UTC two becomes three: what is left out is as late as it would have been
        (BERLIN, "2026-03-28T12:00", "30 2 * * *", 15, ("01:30", "01:45")),
        (BERLIN, "2026-03-28T12:00", "30 1 * * *", 90, ("00:30", "02:00")),
        (BERLIN, "2026-03-28T12:00", "0 23 * * *", 300, ("22:00", "03:00")),
        # at 06:00 UTC two becomes one
        (NEW_YORK, "2026-10-31T16:00", "30 1 * * *", 15, ("05:30", "05:45")),
        (NEW_YORK, "2026-10-31T16:00", "30 1 * * sun", 120, ("05:30", "07:30")),
        (NEW_YORK, "2026-10-31T16:00", "0 22 * * sat", 360, ("02:00", "08:00")),
        # at 07:00 UTC two becomes three
        (NEW_YORK, "2026-03-07T17:00", "30 2 * * *", 15, ("07:30", "07:45")),
        # at 15:00 UTC two becomes half past one
        (LORD_HOWE, "2026-04-04T02:00", "45 1 * * *", 10, ("14:45", "14:55")),
        (LORD_HOWE, "2026-04-04T02:00", "45 1 * * *", 60, ("14:45", "15:45")),
        (LORD_HOWE, "2026-04-04T02:00", "15 1 * * *", 90, ("14:15", "15:45")),
        (LORD_HOWE, "2026-04-04T02:00", "0 23 * * *", 300, ("12:00", "17:00")),
        # at 15:30 UTC two becomes half past two
        (LORD_HOWE, "2026-10-03T02:00", "15 2 * * *", 10, ("15:45", "15:55")),
        # at 01:00 UTC midnight becomes eleven in the evening of the day that it ended
        (NUUK, "2026-10-24T14:00", "30 23 * * sat", 20, ("00:30", "00:50")),
        (NUUK, "2026-10-24T14:00", "30 23 * * *", 120, ("00:30", "02:30")),
        (NUUK, "2026-10-24T14:00", "0 0 * * sun", 60, ("02:00", "03:00")),
    ],
)  # fmt: skip
def test_a_window_opens_once_for_its_length_where_the_hands_of_the_clock_jump(
    zone: str, noon: str, cron: str, minutes: int, expect: tuple[str, str]
) -> None:
    """In UTC. What is open when an hour comes again stays open and lasts no longer for it."""
    windows = Windows(Maintenance(windows=(cron,), length_s=minutes * 60, timezone=zone))
    assert stretches(windows, noon) == [expect]


def test_a_window_of_the_hour_that_comes_twice_is_one_window() -> None:
    """What is done once a window is not done again an hour later."""
    windows = Windows(Maintenance(windows=("30 2 * * *",), length_s=7200, timezone=BERLIN))
    first, last = at("2026-10-25 00:30"), at("2026-10-25 02:29")
    assert windows.opened(first) == windows.opened(last) == first


def test_a_window_of_every_hour_opens_in_the_one_that_comes_again() -> None:
    windows = Windows(Maintenance(windows=("30 * * * *",), length_s=600, timezone=BERLIN))
    assert len(stretches(windows, "2026-10-24T12:00")) == 24


def test_a_closed_window_names_no_time_that_is_left_out() -> None:
    """Half past two is half past three in the night in which clocks are put on."""
    windows = Windows(Maintenance(windows=("30 2 * * *",), length_s=900, timezone=BERLIN))
    for now in ("2026-03-29 00:50", "2026-03-29 01:10"):
        assert windows.closed(at(now)).endswith("opens 2026-03-29 03:30+02:00")
    assert windows.closed(at("2026-10-25 01:10")).endswith("opens 2026-10-26 02:30+01:00")
