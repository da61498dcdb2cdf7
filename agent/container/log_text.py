"""Bytes of a log become clean lines (pure)."""

from __future__ import annotations

import re

_ENDS = re.compile(r"[\r\n]+")
_ESCAPES = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|[PX^_][^\x1b]*\x1b\\"  # DCS, SOS, PM, APC
    r"|[ -/]*[0-~]"  # two-character ones
    r")"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def split(text: str) -> list[str]:
    """Lines without terminal codes. A carriage return ends a line too: progress bars are many short lines."""
    return [line for part in _ENDS.split(text) if (line := strip(part))]


def strip(line: str) -> str:
    """One line without terminal codes and other control characters (tabs stay) and without trailing blanks."""
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    return _CONTROLS.sub("", line).rstrip()
