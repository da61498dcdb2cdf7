"""Maintenance windows: when an upgrade, or a restart that can wait, may cut an engine off that serves."""

from __future__ import annotations

from datetime import datetime, timedelta

from apscheduler.triggers.cron import CronTrigger

from agent.settings.model import Maintenance, zone


class Windows:
    """The site's windows. Without any it is always time."""

    def __init__(self, site: Maintenance) -> None:
        self._zone = zone(site.timezone)
        self._length = timedelta(seconds=site.length_s)
        self._opens = [CronTrigger.from_crontab(text, timezone=self._zone) for text in site.windows]

    def closed(self, wall: float) -> str:
        """Empty while one is open (or there are none), else when the next opens, in words. `wall`: epoch seconds."""
        now = datetime.fromtimestamp(wall, self._zone)
        if not self._opens or any(self._open(trigger, now) for trigger in self._opens):
            return ""
        following = [at for trigger in self._opens if (at := trigger.get_next_fire_time(None, now)) is not None]
        if not following:
            return "no maintenance window ever opens again"
        return f"the next maintenance window opens {min(following).isoformat(sep=' ', timespec='minutes')}"

    def _open(self, trigger: CronTrigger, now: datetime) -> bool:
        """Whether the first opening within the last length of a window is not after now."""
        began = trigger.get_next_fire_time(None, now - self._length + timedelta(microseconds=1))
        return began is not None and began <= now
