"""How starts fail: who says what, and with which code the server ends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from . import flags
from .failures import CLASSES, Class
from .faults import Board
from .flags import Launch
from .log import Log, traceback, write
from .settings import Settings

_BYTES_GIB = 4.2e-6


class StartFailure(Exception):
    """The start fails with a class of the table."""

    def __init__(self, failure: Class, message: str) -> None:
        super().__init__(message)
        self.failure = failure
        self.message = message


def fail(name: str, launch: Launch, tokens: int = 16384) -> NoReturn:
    """End the start with this class; `tokens` is what the KV cache holds. Raises StartFailure."""
    failure = CLASSES[name]
    raise StartFailure(
        failure,
        failure.error.format(
            model=launch.model,
            utilization=launch.memory_utilization,
            desired=launch.memory_utilization * 63.6,
            longest=launch.max_model_len,
            need=launch.max_model_len * _BYTES_GIB,
            have=tokens * _BYTES_GIB,
            tokens=tokens,
        ),
    )


def check_model(launch: Launch, settings: Settings, board: Board) -> None:
    """What the server itself finds before it starts an engine. Raises StartFailure."""
    fault = board.get("start_fail")
    if fault is not None and CLASSES[fault.arg].where == "command line":
        flags.refuse(["--no-such-flag"])
    if fault is not None and CLASSES[fault.arg].where == "server":
        fail(fault.arg, launch)
    if settings.check_model and launch.model.startswith("/") and not Path(launch.model).is_dir():
        fail("bad_path", launch)


def tell_core(log: Log, worker: Log, error: str, *, in_worker: bool) -> None:
    """The lines of the engine core, and of its worker where the cause lies there."""
    if in_worker and worker is not log:
        worker.alarm("multiproc_executor.py:953", "WorkerProc failed to start.")
        worker.alarm("multiproc_executor.py:953", traceback(error, ("worker = WorkerProc(*args, **kwargs)",)))
        error = (
            "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace "
            "for root cause."
        )
    log.alarm("core.py:1510", "EngineCore failed to start.")
    trace = traceback(error, ("engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)",))
    log.alarm("core.py:1510", trace)
    write(f"Process EngineCore:\n{trace}\n", sys.stderr)


def tell_server(failed: dict[int, int | None]) -> None:
    """The server's traceback; `failed` has the codes of the engine cores that it has seen end, by rank."""
    names = {f"EngineCore_DP{rank}" if rank else "EngineCore": code for rank, code in failed.items()}
    error = f"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {names}"
    write(traceback(error) + "\n", sys.stderr)


def refused(error: Exception) -> int:
    """A traceback of the server's own before it has started anything; the exit code."""
    if isinstance(error, StartFailure):
        tell(error.message)
    elif isinstance(error, OSError):
        tell(f"OSError: [Errno {error.errno}] {error.strerror}")
    return 1


def tell(error: str) -> None:
    """A traceback of the server's own."""
    write(traceback(error) + "\n", sys.stderr)
