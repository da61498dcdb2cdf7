"""Ending the processes that a test left to the process runtime."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from agent.adapters import process_records as records
from agent.adapters import process_table as processes
from agent.adapters.process_view import family_of


def end_all(root: Path) -> None:
    """KILL every engine below `root` with its wrapper, by pid and start time; wait until all are gone."""
    marks: set[processes.Mark] = set()
    for folder in records.folders(root):
        try:
            record = records.read(folder)
            found = records.started(record)
        except (OSError, records.Damaged):
            continue
        if found is not None and found.boot == processes.boot_id():
            marks |= {found.wrapper, *(member.mark for member in family_of(record, ()))}
    for mark in marks:
        processes.send(mark, signal.SIGCONT)
        processes.send(mark, signal.SIGKILL)
    end = time.monotonic() + 10
    while any(processes.alive(mark) for mark in marks):
        assert time.monotonic() < end, f"still alive: {[mark for mark in marks if processes.alive(mark)]}"
        time.sleep(0.02)
    for mark in marks:
        try:
            os.waitpid(mark.pid, os.WNOHANG)
        except ChildProcessError:
            continue
