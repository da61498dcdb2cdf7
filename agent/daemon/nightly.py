"""When a cron expression falls due by the clock of a zone that is put on and set back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger

from agent.settings.model import zone

DAY = timedelta(days=1)
MOMENT = timedelta(microseconds=1)


class Nightly(BaseTrigger):  # type: ignore[misc]  # APScheduler 3 has no types
    """A cron expression that names its hours falls due at each of its times once, whatever the clocks are set to.

    A time that comes twice counts where it comes first, and one that is left out as late after the jump as it would
    have been: half past two is half past three. `*` for the hour is every hour that passes, the one that comes again
    among them. So it is with cron (Debian's cron(8)). The scheduler's own trigger counts both of two, and loses the one
    that is left out when it is asked between the jump and that time.
    """

    def __init__(self, cron: str, where: tzinfo) -> None:
        self._zone = where
        self._passing = CronTrigger.from_crontab(cron, timezone=where)
        self._hands = CronTrigger.from_crontab(cron, timezone=UTC)  # what a clock shows, and no clock of UTC jumps
        self._every_hour = cron.split()[1] in ("*", "*/1")

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        """The scheduler's question: the first at or after `now`, or since `previous` where that is longer ago."""
        # in UTC: what is added to a time of a zone moves the hands of its clock
        start = min(now.astimezone(UTC), previous.astimezone(UTC) + MOMENT) if previous else now.astimezone(UTC)
        if self._every_hour:
            found: datetime | None = self._passing.get_next_fire_time(None, start)
            return found
        first = min(self._firsts(start), default=None)
        return None if first is None else first.astimezone(self._zone)

    def _firsts(self, start: datetime) -> Iterator[datetime]:
        """The first not before `start`, by what a clock shows that has jumped already, and by one that has not yet."""
        offsets = {(start + away).astimezone(self._zone).utcoffset() or timedelta() for away in (-DAY, DAY * 0, DAY)}
        for offset in offsets:
            shown = self._hands.get_next_fire_time(None, start + offset)
            while shown is not None and self._real(shown) < start:
                shown = self._hands.get_next_fire_time(None, shown + MOMENT)
            if shown is not None:
                yield self._real(shown)

    def _real(self, shown: datetime) -> datetime:
        """When a clock of the zone first shows that, in UTC."""
        return shown.replace(tzinfo=self._zone, fold=0).astimezone(UTC)


def trigger_of(cron: str, name: str) -> Nightly:
    """`name` of the time zone."""
    return Nightly(cron, zone(name))
