"""Names and families of processes, so that `ps` shows what it shows of the real engine."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_PR_SET_NAME = 15


def _argument_area() -> tuple[int, int]:
    """Where the kernel keeps this process's command line (proc(5), fields arg_start and arg_end)."""
    fields = Path("/proc/self/stat").read_text(encoding="latin-1").rpartition(")")[2].split()
    return int(fields[45]), int(fields[46])


def set_title(title: str, *, command_line: bool = True) -> None:
    """Set the name in /proc/<pid>/comm, and the command line where asked. Elsewhere than on Linux: nothing."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NAME, title.encode()[:15], 0, 0, 0)
    if not command_line:
        return
    start, end = _argument_area()
    if end > start:
        text = title.encode()[: end - start - 1]
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, text, len(text))


def reap(pid: int) -> int | None:
    """The exit code of a child that has ended (negative: its signal), None while it lives."""
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if done else None
