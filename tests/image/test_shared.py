"""One piece of work for all who ask."""

from __future__ import annotations

import asyncio

import pytest

from agent.image.port import Say
from agent.image.shared import Shared
from tests.image.plans import Heard


class Work:
    """Counts its runs and ends when it is told."""

    def __init__(self) -> None:
        self.runs = 0
        self.cancelled = 0
        self.go = asyncio.Event()

    async def __call__(self, say: Say) -> int:
        self.runs += 1
        say({"text": "begun", "ratio": None})
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.runs


async def test_all_who_ask_at_once_share_one_run() -> None:
    """One run, one result, and a late one hears where it is."""
    shared, work, late = Shared[int](), Work(), Heard()
    first = asyncio.ensure_future(shared.run("a", work, Heard()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second = asyncio.ensure_future(shared.run("a", work, late))
    await asyncio.sleep(0)
    work.go.set()
    assert await asyncio.gather(first, second) == [1, 1]
    assert late.texts == ["begun"]
    assert await shared.run("a", work, Heard()) == 2


async def test_one_who_leaves_takes_nothing_from_the_others() -> None:
    """Only when the last has gone is the work cancelled."""
    shared, work = Shared[int](), Work()
    both = [asyncio.ensure_future(shared.run("a", work, Heard())) for _ in range(2)]
    await asyncio.sleep(0.01)
    both[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await both[0]
    assert work.cancelled == 0
    work.go.set()
    assert await both[1] == 1


async def test_work_that_nobody_waits_for_ends() -> None:
    """And a new one may begin at once."""
    shared, work = Shared[int](), Work()
    only = asyncio.ensure_future(shared.run("a", work, Heard()))
    await asyncio.sleep(0.01)
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await only
    assert work.cancelled == 1
    work.go.set()
    assert await shared.run("a", work, Heard()) == 2


async def test_an_error_reaches_everybody() -> None:
    """Each gets it, and it is not kept."""
    shared, go = Shared[int](), asyncio.Event()

    async def fails(say: Say) -> int:
        await go.wait()
        raise ValueError("no")

    both = [asyncio.ensure_future(shared.run("a", fails, Heard())) for _ in range(2)]
    await asyncio.sleep(0.01)
    go.set()
    assert [type(one) for one in await asyncio.gather(*both, return_exceptions=True)] == [ValueError, ValueError]
