"""Pulls beside engines that serve: so many at once, and never the last room of the disk."""

from __future__ import annotations

import asyncio

import pytest

from agent.image.pull import Means, pull
from agent.image.room import NoRoom, Room
from tests.image.plans import Heard, Pulls, progress
from tests.image.test_room import LAYERS, Known


async def test_further_pulls_wait_their_turn() -> None:
    """With one at once the second says that it waits, and begins when the first has ended."""
    first_may_end = asyncio.Event()
    runtime = Pulls([progress(1), first_may_end], [progress(1)])
    means, second_heard = Means(gate=asyncio.Semaphore(1)), Heard()
    first = asyncio.create_task(pull("reg/a:1", runtime, Heard(), means))
    while not runtime.pulled:
        await asyncio.sleep(0)
    second = asyncio.create_task(pull("reg/b:1", runtime, second_heard, means))
    while not second_heard.all:
        await asyncio.sleep(0)
    assert second_heard.texts == ["reg/b:1: waits for another pull to end"]
    assert runtime.pulled == ["reg/a:1"]
    first_may_end.set()
    await asyncio.gather(first, second)
    assert runtime.pulled == ["reg/a:1", "reg/b:1"]


@pytest.mark.parametrize(("free", "refused"), [(2749, True), (2750, False)])
async def test_the_reserve_stays_free(free: int, refused: bool) -> None:
    """1,750 bytes to fetch and 1,000 to keep: what would eat into them is not begun, and says why."""
    room = Room(Known(LAYERS, free), Known(LAYERS, free), reserve=1000)
    if not refused:
        await room("reg/x:1", Heard())
        return
    with pytest.raises(NoRoom, match="1000 B of it are kept free"):
        await room("reg/x:1", Heard())
