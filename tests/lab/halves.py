"""Runs the tests as two runs side by side, each in a lab of its own: `python -m tests.lab.halves [pytest's words]`.

Tests of real parts mostly wait (for windows, restarts, builds), the others mostly compute, so two runs on two
processors take little longer than the first. Its output is shown as it comes, the other's when that is over, and the
last line counts both.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

REAL = "docker or slow"
"""The half whose tests use real parts."""
LATER = "long"
"""What neither half runs."""
NOTHING_COLLECTED = 5
COUNTED = re.compile(r"^tests: (\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)


def main(words: Sequence[str]) -> int:
    """The first status that is not 0; of a half in which no test was wanted only where the other had none either."""
    if os.cpu_count() == 1 or any(word.startswith("-m") for word in words):
        return subprocess.run(command(f"not {LATER}", words), check=False).returncode
    with tempfile.TemporaryFile("w+") as aside, tempfile.TemporaryFile("w+") as own:
        quiet = subprocess.Popen(
            command(f"not {LATER} and not ({REAL})", words), stdout=aside, stderr=subprocess.STDOUT, text=True
        )
        shown = subprocess.Popen(
            command(f"not {LATER} and ({REAL})", words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        print(f"== the tests of real parts ({REAL}); the others run beside them and are shown afterwards", flush=True)
        try:
            assert shown.stdout is not None
            copy(shown.stdout, own)
            statuses = [shown.wait(), quiet.wait()]
        finally:
            for child in (shown, quiet):
                child.terminate()
                child.wait()
        print("== the others", flush=True)
        aside.seek(0)
        copy(aside, own)
        own.seek(0)
        print(total(own.read()))
    ran = [status for status in statuses if status != NOTHING_COLLECTED]
    return next((status for status in ran if status), 0) if ran else NOTHING_COLLECTED


def command(marks: str, words: Sequence[str]) -> list[str]:
    inside = [sys.executable, "-m", "tests.lab.inside", "--if-possible", "--"]
    return [*inside, sys.executable, "-m", "pytest", "-m", marks, *words]


def copy(source: IO[str], target: IO[str]) -> None:
    """To the terminal as it comes, and into `target`."""
    while text := os.read(source.fileno(), 1 << 16).decode(errors="replace"):
        print(text, end="", flush=True)
        target.write(text)


def total(output: str) -> str:
    """The last line of each run as one for both."""
    found = [[int(number) for number in counts] for counts in COUNTED.findall(output)]
    passed, failed, skipped = (sum(column) for column in zip(*found, strict=True)) if found else (0, 0, 0)
    return f"tests: {passed} passed, {failed} failed, {skipped} skipped"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
