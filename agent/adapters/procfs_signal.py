"""Signals to one process, by its pid and start time: never by name, and never to a stranger that got the same pid."""

from __future__ import annotations

import os
import signal

from agent.errors import RuntimeTrouble


def kill_process(pid: int, start_ticks: int) -> None:
    """SIGKILL to that very process. One that has gone already is no error; no right to do it is."""
    send_signal(pid, start_ticks, signal.SIGKILL)


def send_signal(pid: int, start_ticks: int, number: signal.Signals) -> bool:
    """`number` to that very process; whether it was there to get it."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # the handle is of whoever has the pid now; with the start time of the one meant it is that one for good
        if _start_ticks(pid) != start_ticks:
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    except ProcessLookupError:
        return False
    except PermissionError as error:
        why = "the agent has no right to (CAP_KILL)"
        raise RuntimeTrouble(
            action=f"send {number.name} to pid {pid}", why=why, advice=f"as root: kill -{number.value} {pid}"
        ) from error
    finally:
        os.close(handle)


def _start_ticks(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
