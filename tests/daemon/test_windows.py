"""Maintenance windows: open for as long as they say, in the zone that the site names."""

from __future__ import annotations

from datetime import datetime
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


@pytest.mark.parametrize(
    ("when", "is_open"),
    [
        # the hands go back an hour at 01:00 UTC: half past two comes twice, and cron opens at both
        ("2026-10-25T00:29:00+00:00", False),
        ("2026-10-25T00:30:00+00:00", True),
        ("2026-10-25T01:10:00+00:00", True),  # ten past two again, forty minutes after the first opening
        ("2026-10-25T03:29:00+00:00", True),
        ("2026-10-25T03:30:00+00:00", False),
        # they go on an hour at 01:00 UTC: half past two is half past three
        ("2026-03-29T01:00:00+00:00", False),
        ("2026-03-29T01:29:00+00:00", False),
        ("2026-03-29T01:30:00+00:00", True),
        ("2026-03-29T02:59:00+00:00", True),
    ],
)
def test_a_window_lasts_where_the_hands_of_the_clock_jump(when: str, is_open: bool) -> None:
    windows = Windows(Maintenance(windows=("30 2 * * *",), length_s=7200, timezone="Europe/Berlin"))
    wall = datetime.fromisoformat(when).timestamp()
    opened = windows.opened(wall)
    assert (opened is not None) is is_open
    assert (windows.closed(wall) == "") is is_open
    assert opened is None or wall - 7200 < opened <= wall
