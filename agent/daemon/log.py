"""structlog, once: fields in the journal, JSON in pipes, readable on a terminal; no secret in any of them."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

from agent.adapters.journal import Journal, is_journal
from agent.errors import AgentError
from agent.incident.redact import redact, redact_text
from agent.incident.veil import Veil

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
"""Of syslog(3); `journalctl -p warning` and its like go by them."""
least = logging.INFO
under_way: Mapping[str, str] = {}


def set_up(level: str, form: str, veil: Veil | None = None) -> None:
    """`form`: `auto`, `json` or `text`. Other libraries' warnings come through the same processors."""
    set_level(level)
    as_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    in_journal = is_journal(sys.stderr.fileno(), os.environ)
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        with_operation,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info if not as_text else structlog.processors.StackInfoRenderer(),
        Hiding(veil or Veil()),
    ]
    journal = Journal()
    native = ToJournal(journal) if in_journal and form == "auto" and journal.there else None
    render = on_stream(as_text, in_journal, veil or Veil())
    structlog.configure(
        processors=[enough, *shared, structured if native else render],
        # levels are compared by `enough`, since a cached logger would keep the one that it was made with
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=(lambda *_: native) if native else structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler: logging.Handler = ForeignToJournal(shared, native) if native else logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processor=render))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    sys.excepthook = crashed


def crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What nobody caught is one event as well, with its secrets hidden; a traceback would be a line for each frame."""
    if issubclass(kind, Exception):
        reason = str(error) or kind.__name__
        structlog.get_logger().critical("crashed", reason=reason, exc_info=(kind, error, trace))
    else:
        sys.__excepthook__(kind, error, trace)


def last_word(error: AgentError) -> None:
    """Why the agent ends before, or without, its log: an error by the journal's reckoning too."""
    hint = f"hint: {error.advice}" if error.advice else ""
    if is_journal(sys.stderr.fileno(), os.environ):
        sys.stderr.write(f"<{PRIORITIES['error']}>error: {error.text}" + (f"; {hint}\n" if hint else "\n"))
    else:
        sys.stderr.write(f"error: {error.text}\n" + (f"{hint}\n" if hint else ""))


def set_level(level: str) -> None:
    """From the next line on."""
    global least
    least = LEVELS[level]


def correlate(operations: Mapping[str, str]) -> None:
    """Lines about a deployment name its operation that is under way: slug → id, as it is at the time of the line."""
    global under_way
    under_way = operations


def with_operation(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    operation = under_way.get(str(event.get("recipe")))
    if operation is not None:
        event.setdefault("operation", operation)
    return event


def enough(_: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Drops what is below the level in force."""
    if LEVELS.get(method, logging.ERROR) < least:
        raise structlog.DropEvent
    return event


class Hiding:
    """Whatever is, or looks like, a secret leaves before it is written."""

    def __init__(self, veil: Veil) -> None:
        self._veil = veil

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        exc_info = event.pop("exc_info", None)  # no text yet: a terminal's renderer makes it one
        cleaned: EventDict = redact(self._veil.clean(event))
        return cleaned if exc_info is None else {**cleaned, "exc_info": exc_info}


def on_stream(as_text: bool, in_journal: bool, veil: Veil) -> Callable[..., Any]:
    """Lines on stderr. The journal reads the priority of a line from its first characters (sd-daemon(3))."""
    if as_text:
        # structlog's own choice prints the values of local variables where `rich` is installed, secrets and all
        return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=hidden_traceback(veil))
    render = structlog.processors.JSONRenderer()
    return prioritised(render) if in_journal else render


def hidden_traceback(veil: Veil) -> Callable[[TextIO, Any], None]:
    """A traceback becomes text last of all, and an exception's own words may have a secret in them."""

    def write(target: TextIO, exc_info: Any) -> None:
        text = io.StringIO()
        structlog.dev.plain_traceback(text, exc_info)
        target.write(redact_text(veil.text(text.getvalue())))

    return write


def prioritised(render: Callable[..., Any]) -> Callable[..., str]:
    def rendered(logger: WrappedLogger, method: str, event: EventDict) -> str:
        priority = PRIORITIES.get(str(event.get("level")), PRIORITIES["error"])
        return f"<{priority}>{render(logger, method, event)}"

    return rendered


def structured(_: WrappedLogger, __: str, event: EventDict) -> tuple[tuple[EventDict], dict[str, Any]]:
    return (event,), {}


class ToJournal:
    """What structlog calls with each event: a sentence for people, and every field for `journalctl`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def msg(self, event: EventDict) -> None:
        fields = {name: plain(value) for name, value in event.items() if name not in ("timestamp", "level")}
        priority = PRIORITIES.get(str(event.get("level")), PRIORITIES["error"])
        self._journal.send(sentence(fields), priority, fields)

    debug = info = warning = error = exception = critical = log = msg


class ForeignToJournal(logging.Handler):
    """What other libraries say, by the same way and with the same fields."""

    def __init__(self, processors: Sequence[Callable[..., EventDict]], to: ToJournal) -> None:
        super().__init__()
        self._processors = processors
        self._to = to

    def emit(self, record: logging.LogRecord) -> None:
        try:
            event: EventDict = {"event": record.getMessage(), "logger": record.name}
            if record.exc_info:
                event["exc_info"] = record.exc_info
            for process in self._processors:
                event = process(None, record.levelname.lower(), event)
            self._to.msg(event)
        except (TypeError, ValueError):  # its arguments do not fit its text
            self.handleError(record)


def sentence(fields: dict[str, str]) -> str:
    """`tick: why recipe=… step=…`, as `journalctl` shows it."""
    about = fields.get("why") or fields.get("reason") or ""
    rest = [f"{name}={text}" for name, text in fields.items() if name not in ("event", "why", "reason", "exception")]
    words = [f"{fields.get('event', '')}{':' if about else ''}", about, *rest]
    return " ".join(word for word in words if word)


def plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
