"""Lines as the engine and its web server write them, each to the stream that the real ones use."""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO

TITLES = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 405: "Method Not Allowed",
          500: "Internal Server Error", 503: "Service Unavailable"}  # fmt: skip


def write(text: str, stream: TextIO | None = None) -> None:
    """Write and flush. A reader that has gone away does not end an engine: the logging module forgives it too."""
    try:
        (stream or sys.stdout).write(text)
        (stream or sys.stdout).flush()
    except OSError:
        return


class Log:
    """The engine's logger of one process: `(APIServer pid=7) INFO 11-30 03:40:32 [file.py:12] message`."""

    def __init__(self, process: str, pid: int | None = None) -> None:
        self.process = process
        self.pid = pid

    def _line(self, level: str, source: str, message: str) -> None:
        head = f"({self.process} pid={self.pid or os.getpid()}) {level} {time.strftime('%m-%d %H:%M:%S')} [{source}] "
        write("".join(f"{head}{line}\n" for line in message.split("\n")))

    def note(self, source: str, message: str) -> None:
        """One INFO record; every line of it has the prefix."""
        self._line("INFO", source, message)

    def caution(self, source: str, message: str) -> None:
        """One WARNING record."""
        self._line("WARNING", source, message)

    def alarm(self, source: str, message: str) -> None:
        """One ERROR record."""
        self._line("ERROR", source, message)


def server(message: str, level: str = "INFO") -> None:
    """A line of the web server's own logger, which writes to stderr and has no time."""
    write(f"{level + ':':<9} {message}\n", sys.stderr)


def access(peer: str, request: str, status: int) -> None:
    """The web server's line about one request, on stdout."""
    write(f'INFO:     {peer} - "{request} HTTP/1.1" {status} {TITLES.get(status, "")}\n')


def traceback(error: str, frames: tuple[str, ...] = ("sys.exit(main())",)) -> str:
    """The shape of a Python traceback that ends in `error`."""
    body = "".join(f'  File "/usr/local/bin/vllm", line 8, in <module>\n    {frame}\n' for frame in frames)
    return f"Traceback (most recent call last):\n{body}{error}"
