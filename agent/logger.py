"""The log of what both the daemon and the commands run."""

from __future__ import annotations

import sys
from typing import Any


def logger() -> Any:
    """structlog's logger, imported by the first word: a command that has none to say starts faster without it.

    The daemon sets structlog up. In a command nobody has, and then the words go to standard error, since standard
    output is the answer's alone.
    """
    import structlog

    if structlog.is_configured():
        return structlog.get_logger()
    to = structlog.PrintLogger(sys.stderr)
    steps: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.format_exc_info,
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
    ]
    return structlog.wrap_logger(to, processors=steps)
