"""The kernel's own log: what it says of the NVIDIA driver, of killed processes and of hung tasks."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from agent.adapters.aside import Aside
from agent.clock import Clock, timestamp
from agent.host.reading import Known, Reading, Unknown

MATTERS = re.compile(
    r"NVRM|\bXid\b|nvidia|Out of memory|oom-kill|Killed process|invoked oom-killer|blocked for more than|hung_task"
    r"|segfault|general protection|Hardware Error|PCIe Bus Error|AER:|soft lockup|rcu.*stall",
    re.IGNORECASE,
)
KEPT = 500
RECORD = 8192
"""The longest record that /dev/kmsg gives at once (CONSOLE_EXT_LOG_MAX)."""


class KernelRing:
    """A `KernelLog` on /dev/kmsg, which gives its whole ring to each reader from the beginning."""

    def __init__(self, clock: Clock, path: Path = Path("/dev/kmsg")) -> None:
        self._clock = clock
        self._path = path
        self._aside = Aside(str(path), seconds=5.0)

    async def lines(self) -> Reading[tuple[str, ...]]:
        return await self._aside.look(self._lines)

    def _lines(self) -> Reading[tuple[str, ...]]:
        now = self._clock.now()
        booted = now.wall - time.clock_gettime(time.CLOCK_MONOTONIC)
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return Unknown(f"there is no {self._path} here (a container, or PrivateDevices= of the unit)")
        except OSError as error:
            return Unknown(f"no right to read {self._path} ({error.strerror}): this wants CAP_SYSLOG")
        try:
            return Known(tuple(read_ring(handle, booted)[-KEPT:]), now)
        except OSError as error:
            return Unknown(f"cannot read {self._path}: {error.strerror}")
        finally:
            os.close(handle)


def read_ring(handle: int, booted: float) -> list[str]:
    """What matters of the ring, oldest first."""
    found: list[str] = []
    while True:
        try:
            record = os.read(handle, RECORD)
        except BlockingIOError:
            return found
        except BrokenPipeError:
            continue  # older records were overwritten meanwhile; the next read goes on behind them
        if not record:
            return found
        if (line := line_of(record.decode("utf-8", "replace"), booted)) is not None:
            found.append(line)


def line_of(record: str, booted: float) -> str | None:
    """`6,339,5140900,-;NVRM: …` as `2026-11-30T03:15:02.123Z NVRM: …`; None for what does not matter."""
    head, _, text = record.partition(";")
    text = text.partition("\n")[0]  # further lines are the device's own key=value pairs
    fields = head.split(",")
    if not MATTERS.search(text) or len(fields) < 3 or not fields[2].isdigit():
        return None
    return f"{timestamp(booted + int(fields[2]) / 1e6)} {text}"
