"""Runs the tests as three runs side by side, each in a lab of its own: `python -m tests.lab.parts`.

Tests of real parts mostly wait (for windows, restarts, builds), the others mostly compute, so three runs on two
processors take little longer than the longest. The first one's output is shown as it comes, the others' when that is
over, and the last line counts all. With words for pytest (`python -m tests.lab.parts -k stalled`) it is one run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO

LATER = "long"
"""What is left to `make test-long`."""
REAL = "docker or slow"
"""Tests that use real parts; these folders have half of their time."""
APART = ("tests/e2e", "tests/adapters", "tests/image")
PARTS: tuple[tuple[str, ...], ...] = (
    ("-m", f"not {LATER} and ({REAL})", *APART),
    ("-m", f"not {LATER} and ({REAL})", "tests", *(f"--ignore={folder}" for folder in APART)),
    ("-m", f"not {LATER} and not ({REAL})", "tests"),
)
NOTHING_COLLECTED = 5
COUNTED = re.compile(r"^tests: (\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)


def main(words: Sequence[str]) -> int:
    """The first status that is not 0."""
    if words or os.cpu_count() == 1:
        return subprocess.run(command("-m", f"not {LATER}", *words), check=False).returncode
    return side_by_side(PARTS)


def side_by_side(parts: Sequence[Sequence[str]]) -> int:
    """As `main`; a part without any test is no failure where another has some."""
    with ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in parts]
        children = [stack.enter_context(started(part, out)) for part, out in zip(parts, outputs, strict=True)]
        said = ""
        try:
            for part, child, output in zip(parts, children, outputs, strict=True):
                print(f"== {' '.join(part)} ({len(parts)} such runs at once)", flush=True)
                said += shown(child, output)
        finally:
            for child in children:
                child.terminate()
    print(total(said))
    ran = [child.returncode for child in children if child.returncode != NOTHING_COLLECTED]
    return next((status for status in ran if status), 0) if ran else NOTHING_COLLECTED


def command(*words: str) -> list[str]:
    inside = [sys.executable, "-m", "tests.lab.inside", "--if-possible", "--"]
    return [*inside, sys.executable, "-m", "pytest", *words]


def started(part: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command(*part), stdout=output, stderr=subprocess.STDOUT)


def shown(child: subprocess.Popen[bytes], output: IO[bytes]) -> str:
    """What a run says, printed as it comes until it ends."""
    at, text = 0, ""
    while True:
        over = child.poll() is not None  # before reading: what is said last is not missed
        new = os.pread(output.fileno(), 1 << 24, at)
        at += len(new)
        text += (piece := new.decode(errors="replace"))
        print(piece, end="", flush=True)
        if over and not new:
            return text
        if not new:
            with_patience(child)


def with_patience(child: subprocess.Popen[bytes]) -> None:
    try:
        child.wait(0.5)
    except subprocess.TimeoutExpired:
        return


def total(output: str) -> str:
    """The last line of each run as one for all."""
    found = [[int(number) for number in counts] for counts in COUNTED.findall(output)]
    passed, failed, skipped = (sum(column) for column in zip(*found, strict=True)) if found else (0, 0, 0)
    return f"tests: {passed} passed, {failed} failed, {skipped} skipped"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
