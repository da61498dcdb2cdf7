"""What stands between a command and the stream that it writes to: no stranger's text reaches a terminal's controls,
no encoding stops an answer, and a stream that cannot be written to is an error of ours."""

from __future__ import annotations

import os
import sys

from agent.errors import AgentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

COLOURS = ("\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[35m", "\x1b[2m", "\x1b[1m", "\x1b[0m")
"""The sequences that `paint` and the findings of checks write; a terminal gets these and no others."""
_CONTROLS = dict.fromkeys(
    (*range(9), *range(11, 32), *range(0x7F, 0xA0), 0x61C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F)), None
) | dict.fromkeys((*range(0x2060, 0x2070), *range(0xD800, 0xE000), 0xFEFF), None)
"""Everything that moves a cursor, turns the direction of writing, hides, or is no character. Tab and newline stay."""


class ReaderGone(Exception):
    """Nobody reads what a command writes any more: `head` has seen enough."""


class CannotWrite(AgentError):
    """The answer does not get to where it should."""

    code = "output.failed"
    message = "cannot write the answer: {why}"
    hint = "what was asked may be done all the same: look with agentctl status, and give the output more room"


class Screen:
    """A text stream in the place of `sys.stdout` or `sys.stderr`. Raises ReaderGone, CannotWrite."""

    def __init__(self, under: TextIO) -> None:
        self.under = under
        self._colours = under.isatty()
        self._narrow = not is_utf8(under)

    def write(self, text: str) -> int:
        return self.raw(plain(text, colours=self._colours))

    def raw(self, text: str) -> int:
        """As it is, for the command's own control of the cursor and for bytes that are somebody's log."""
        if self._narrow:
            text = text.encode(self.under.encoding, "replace").decode(self.under.encoding)
        with Told():
            return self.under.write(text)

    def flush(self) -> None:
        with Told():
            self.under.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.under, name)


class Told:
    """Errors of a stream in our own words."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, BrokenPipeError):
            raise ReaderGone from error
        if isinstance(error, OSError):
            raise CannotWrite(why=error.strerror or error) from error


def plain(text: str, *, colours: bool = False) -> str:
    """Without control characters; with `colours` those of our own stay."""
    if colours and "\x1b" in text:
        import re

        parts = re.split("|".join(map(re.escape, COLOURS)), text)
        kept = re.findall("|".join(map(re.escape, COLOURS)), text)
        return "".join(plain(part) + colour for part, colour in zip(parts, [*kept, ""], strict=True))
    return text.translate(_CONTROLS) if not text.isascii() or not text.isprintable() else text


def is_utf8(stream: TextIO) -> bool:
    """Whether a stream can carry every character; one without an encoding holds text as it is."""
    return (stream.encoding or "utf-8").lower().replace("-", "").replace("_", "") in ("utf8", "utf8sig", "cp65001")


class screens:  # noqa: N801 - used as a word: `with screens():`
    """Both streams through a Screen while it lasts; a closed one is nobody's."""

    def __enter__(self) -> None:
        self._before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = (screen(stream) for stream in self._before)

    def __exit__(self, *_: object) -> None:
        sys.stdout, sys.stderr = self._before


def screen(stream: TextIO | None) -> TextIO:
    made: Any = Screen(stream if stream is not None else open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    return made  # type: ignore[no-any-return]


def raw(stream: TextIO, text: str) -> None:
    """Past a Screen, where there is one."""
    write = stream.raw if isinstance(stream, Screen) else stream.write
    write(text)


def let_go(stream: TextIO | None) -> None:
    """Leave what a stream still holds: the interpreter would try once more at its end, and complain."""
    if stream is None:
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # a stream of a test, or one that is gone altogether
        return
