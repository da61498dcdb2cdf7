"""Maintenance windows: when an upgrade, or a restart that can wait, may cut an engine off that serves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from agent.daemon.nightly import Nightly, trigger_of
from agent.settings.model import Maintenance


class Windows:
    """The site's windows. Without any it is always time.

    One that names its hours opens once a day, and stays open for its length as time passes, also where the clocks jump.
    """

    def __init__(self, site: Maintenance) -> None:
        self._length = timedelta(seconds=site.length_s)
        self._opens = [trigger_of(text, site.timezone) for text in site.windows]

    @property
    def any(self) -> bool:
        return bool(self._opens)

    def opened(self, wall: float) -> float | None:
        """When the window began that is open now, the latest of several; None while none is. Seconds of the epoch."""
        now = datetime.fromtimestamp(wall, UTC)
        began = [at for trigger in self._opens if (at := self._began(trigger, now)) is not None]
        return max(map(datetime.timestamp, began), default=None)

    def closed(self, wall: float) -> str:
        """Empty while one is open (or there are none), else when the next opens, in words. `wall`: epoch seconds."""
        now = datetime.fromtimestamp(wall, UTC)
        if not self._opens or any(self._began(trigger, now) is not None for trigger in self._opens):
            return ""
        following = [at for trigger in self._opens if (at := trigger.get_next_fire_time(None, now)) is not None]
        if not following:
            return "no maintenance window ever opens again"
        first = min(following, key=datetime.timestamp)
        return f"the next maintenance window opens {first.isoformat(sep=' ', timespec='minutes')}"

    def _began(self, trigger: Nightly, now: datetime) -> datetime | None:
        """The first opening within the last length of a window, where it is not after now.

        In UTC: Python reckons with the hands of the clock where both times are of one zone, and they jump twice a year.
        """
        began: datetime | None = trigger.get_next_fire_time(None, now - self._length + timedelta(microseconds=1))
        return began if began is not None and began.astimezone(UTC) <= now else None
