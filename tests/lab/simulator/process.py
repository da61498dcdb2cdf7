"""Names and families of processes, so that `ps` shows what it shows of the real engine."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn


def _argument_area() -> tuple[int, int]:
    """Where the kernel keeps this process's command line (proc(5), fields arg_start and arg_end)."""
    fields = Path("/proc/self/stat").read_text(encoding="latin-1").rpartition(")")[2].split()
    return int(fields[45]), int(fields[46])


def set_title(title: str, *, command_line: bool = True) -> None:
    """Set the name in /proc/<pid>/comm (15 bytes of it), and the command line where asked."""
    Path("/proc/self/comm").write_bytes(title.encode()[:15])
    if not command_line:
        return
    start, end = _argument_area()
    with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(title.encode()[: end - start - 1].ljust(end - start, b"\0"))


def child(life: Callable[[], None]) -> NoReturn:
    """What a forked process does; it never returns into its parent's code, whatever happens."""
    try:
        life()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def wait_for(pid: int) -> int:
    """The exit code of a child that is ending."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def reap(pid: int) -> int | None:
    """The exit code of a child that has ended (negative: its signal), None while it lives."""
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if done else None
