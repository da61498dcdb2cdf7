"""structlog, once: JSON under systemd and in pipes, readable on a terminal; no secret in either."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

from agent.incident.redact import redact

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def set_up(level: str, form: str) -> None:
    """`form`: `auto`, `json` or `text`. Other libraries' warnings come through the same processors."""
    as_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    # structlog's own choice prints the values of local variables where `rich` is installed, secrets and all
    on_terminal = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    renderer: Any = on_terminal if as_text else structlog.processors.JSONRenderer()
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info if not as_text else structlog.processors.StackInfoRenderer(),
        without_secrets,
    ]
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    foreign = structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processor=renderer)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(foreign)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def without_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Whatever looks like a secret leaves before it is written."""
    cleaned: EventDict = redact(event)
    return cleaned
