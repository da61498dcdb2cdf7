"""Looks that may never come back."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agent.adapters.aside import Aside
from agent.clock import Instant
from agent.host.reading import Known, Unknown

AT = Instant(1.0, 2.0)


async def test_a_look_gives_its_reading() -> None:
    assert await Aside("/proc").look(lambda: Known(7, AT)) == Known(7, AT)


async def test_what_a_look_raises_is_raised_here() -> None:
    def broken() -> Known[int]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Aside("/proc").look(broken)


async def test_looks_that_hang_are_unknown_and_bounded_in_number() -> None:
    release = threading.Event()

    def hangs() -> Known[int]:
        release.wait()
        return Known(1, AT)

    aside = Aside("/proc", seconds=0.05, most=2)
    try:
        for _ in range(2):
            assert await aside.look(hangs) == Unknown("/proc: no answer within 0.05 s")
        assert await aside.look(lambda: Known(2, AT)) == Unknown("/proc: 2 earlier looks have not come back")
    finally:
        release.set()
    async with asyncio.timeout(5):
        while isinstance(await aside.look(lambda: Known(2, AT)), Unknown):
            await asyncio.sleep(0.01)


async def test_many_looks_at_one_moment_all_get_their_turn() -> None:
    """Forty deployments look at one second: none is refused for the others."""
    aside = Aside("/proc", most=4)
    found = await asyncio.gather(*(aside.look(lambda at=at: slow(at)) for at in range(40)))  # type: ignore[misc]
    assert found == [Known(at, AT) for at in range(40)]


def slow(number: int) -> Known[int]:
    time.sleep(0.01)
    return Known(number, AT)


PROGRAM = """
import asyncio, os, sys
from agent.adapters.aside import Aside
async def main():
    print(await Aside("a pipe", seconds=0.1).look(lambda: os.read(int(sys.argv[1]), 1)), flush=True)
asyncio.run(main())
"""


def test_a_look_that_never_comes_back_does_not_keep_the_program() -> None:
    reads, writes = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(reads)],
            pass_fds=(reads,),
            cwd=Path(__file__).parents[2],
            timeout=20,
            capture_output=True,
            text=True,
        )
    finally:
        os.close(reads)
        os.close(writes)
    assert done.returncode == 0, done.stderr
    assert "no answer within 0.1 s" in done.stdout
