"""What commands print: JSON alone on stdout, or text that fits the terminal; colour only where a person looks."""

from __future__ import annotations

import os
import sys
import time

from agent.cli.screen import is_utf8, plain, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any, TextIO

GOOD, WARN, BAD, DIM, BOLD = "32", "33", "31", "2", "1"
REMIND_S = 30.0
"""How often a log is told that a step goes on."""
STATE_COLOURS = {
    "ready": GOOD,
    "busy": GOOD,
    "stopped": DIM,
    "asleep": DIM,
    "stalled": BAD,
    "zombie": BAD,
    "dead": BAD,
    "failed": BAD,
    "quarantined": BAD,
}


def print_json(value: Any) -> None:
    print(json_text(value, indent=2))


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON in readable letters where the stream carries them; what a terminal would obey stands as an escape."""
    import json
    import re

    if not is_utf8(sys.stdout):
        return json.dumps(value, indent=indent)
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    if text.isascii() and "\x7f" not in text:
        return text
    return re.sub(r"[^\n -~]", lambda found: plain(found[0]) or f"\\u{ord(found[0]):04x}", text)


def coloured(arguments: Namespace, stream: TextIO | None = None) -> bool:
    """Only on a terminal, not with NO_COLOR (any value that is not empty), --no-color or TERM=dumb."""
    stream = stream or sys.stdout
    refused = arguments.no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not refused and stream.isatty()


def columns() -> int | None:
    """How wide the terminal is that an answer goes to; None where it goes elsewhere, and is not wrapped."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):
        return None


def paint(text: str, colour: str, on: bool) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if on else text


def table(rows: Sequence[Sequence[str]], head: Sequence[str], colours: bool) -> str:
    """Columns as wide as they need; the last takes the rest."""
    everything = [head, *rows]
    widths = [max(len(row[column]) for row in everything) for column in range(len(head))]
    lines = []
    for number, row in enumerate(everything):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = "  ".join(cells).rstrip()
        lines.append(paint(line, BOLD, colours) if number == 0 else line)
    return "\n".join(lines)


class Progress:
    """One line on stderr that is rewritten on a terminal; elsewhere a line for each step, and one in a while between.

    None with -o json: what is on stderr then is the error object and nothing else.
    """

    def __init__(self, arguments: Namespace) -> None:
        self._quiet = arguments.quiet or arguments.json
        self._live = sys.stderr.isatty()
        self._last = ""
        self._told = float("-inf")

    def show(self, text: str, ratio: float | None = None, step: str | None = None) -> None:
        """`text`, with a bar where a ratio (0..1) is known; `step` is what it is about where its words count on."""
        if self._quiet:
            return
        line = plain(f"{bar(ratio)} {text}" if ratio is not None else text)
        if self._live:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            raw(sys.stderr, f"\r\x1b[K{line[: width - 1]}")
            sys.stderr.flush()
            self._last = text
        elif (step or text) != self._last or (step and time.monotonic() - self._told >= REMIND_S):
            print(line, file=sys.stderr, flush=True)
            self._last, self._told = step or text, time.monotonic()

    def done(self) -> None:
        """Leave the line as it is and go on below it."""
        if self._live and self._last and not self._quiet:
            print(file=sys.stderr)
        self._last = ""


def bar(ratio: float, width: int = 24) -> str:
    """`[=======>        ]  42 %`"""
    ratio = min(1.0, max(0.0, ratio))
    full = int(ratio * width)
    return f"[{('=' * full + ('>' if full < width else ''))[:width]:<{width}}] {ratio:4.0%}"
