"""A call that hangs costs its caller a deadline, and neither the loop nor the end of the process."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agent.adapters.runtime_threads import Threads


async def test_results_and_errors_come_back_as_they_are() -> None:
    threads = Threads("test")
    assert await threads.run(lambda: 42, 5) == 42
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0, 5)


async def test_the_log_s_context_is_carried_over() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")
    name.set("bound")
    assert await Threads("test").run(lambda: name.get("lost"), 5) == "bound"


async def test_hung_calls_keep_their_places_and_later_ones_time_out_too() -> None:
    threads, release = Threads("test", limit=2), threading.Event()
    hung = [threads.run(lambda: release.wait(30), 0.05) for _ in range(2)]
    assert [type(error) for error in await asyncio.gather(*hung, return_exceptions=True)] == [TimeoutError] * 2
    with pytest.raises(TimeoutError):
        await threads.run(lambda: 1, 0.05)
    release.set()
    assert await threads.run(lambda: 1, 5) == 1


async def test_a_cancelled_caller_leaves_the_call_to_itself() -> None:
    threads, done = Threads("test", limit=1), threading.Event()
    release = threading.Event()
    task = asyncio.ensure_future(threads.run(lambda: release.wait(30) and done.set(), 30))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    assert await threads.run(done.is_set, 5)


def test_a_hung_call_does_not_keep_the_process_alive() -> None:
    script = (
        "import asyncio, time\n"
        "from agent.adapters.runtime_threads import Threads\n"
        "async def main():\n"
        "    try:\n"
        "        await Threads('test').run(lambda: time.sleep(60), 0.05)\n"
        "    except TimeoutError:\n"
        "        print('gave up')\n"
        "asyncio.run(main())\n"
    )
    before = time.monotonic()
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=root, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "gave up\n", "")
    assert time.monotonic() - before < 20
