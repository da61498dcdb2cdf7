"""systemd's notification socket (sd_notify(3)): one datagram, no library."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping

LONGEST_S = 1.0
"""A manager whose queue is full for longer misses the message."""


class SdNotify:
    """Does nothing where the service manager asked for nothing."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self._address = environ.get("NOTIFY_SOCKET", "")
        self.watchdog_s = self._watchdog(environ)

    @staticmethod
    def _watchdog(environ: Mapping[str, str]) -> float | None:
        """Seconds within which the service manager wants a sign of life; None for no watchdog, or another process's."""
        if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
            return None
        text = environ.get("WATCHDOG_USEC", "")
        return int(text) / 1e6 if text.isdigit() and int(text) else None

    def reloading(self) -> None:
        """Begins what a later `READY=1` ends; the time tells this reload from an earlier one's answer."""
        self.say("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def say(self, *lines: str) -> None:
        """Send `READY=1`, `STATUS=…`, `WATCHDOG=1`, … A manager that does not listen is no fault of the agent's."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.settimeout(LONGEST_S)  # the loop waits meanwhile
                out.sendto("\n".join(lines).encode(), address)
        except OSError:
            return
