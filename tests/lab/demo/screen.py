"""What a person sees: one line for each thing that happened, with the seconds since the demo began."""

from __future__ import annotations

import shutil
import textwrap
import time
from collections.abc import Mapping
from typing import TextIO

from agent.cli.output import BOLD, DIM, STATE_COLOURS, WARN, paint

TAG = 10
WIDEST = 110
COLOURS = {**STATE_COLOURS, "suspect": WARN, "fault": WARN, "$": BOLD}


class Screen:
    """Lines on a stream. Colour, and a line that is rewritten, only where the stream is a terminal."""

    def __init__(self, stream: TextIO, environment: Mapping[str, str]) -> None:
        self._stream = stream
        self._terminal = stream.isatty() and environment.get("TERM") != "dumb"
        self._colours = self._terminal and not environment.get("NO_COLOR")
        self._began = time.monotonic()
        self._passing = False

    def title(self, text: str) -> None:
        """A line of its own, before the first and between two acts."""
        self._write(paint(text, BOLD, self._colours))

    def text(self, text: str) -> None:
        """A paragraph."""
        for line in textwrap.wrap(text, self._width()):
            self._write(line)

    def gap(self) -> None:
        """An empty line."""
        self._write("")

    def event(self, tag: str, text: str) -> None:
        """Something happened now: `  12.3 s  stalled    3 requests run and nothing moved for 8 s`."""
        head = f"{time.monotonic() - self._began:7.1f} s  "
        lines = textwrap.wrap(text, self._width() - len(head) - TAG) or [""]
        self._write(head + paint(f"{tag:<{TAG}}", COLOURS.get(tag, ""), self._colours and tag in COLOURS) + lines[0])
        self.more(*lines[1:])

    def more(self, *lines: str) -> None:
        """Lines that belong to the last event, below its text, as they are."""
        for line in lines:
            self._write(" " * (11 + TAG) + line)

    def passing(self, tag: str, text: str) -> None:
        """Progress that the next line replaces; nothing where lines stay."""
        if self._terminal:
            line = f"{time.monotonic() - self._began:7.1f} s  {tag:<{TAG}}{text}"[: self._width()]
            self._stream.write("\r\x1b[K" + paint(line, DIM, self._colours))
            self._stream.flush()
            self._passing = True

    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def _write(self, line: str) -> None:
        self._stream.write(("\r\x1b[K" if self._passing else "") + line.rstrip() + "\n")
        self._stream.flush()
        self._passing = False

    def _width(self) -> int:
        columns = shutil.get_terminal_size((WIDEST, 24)).columns if self._terminal else WIDEST
        return max(60, min(columns - 1, WIDEST))
