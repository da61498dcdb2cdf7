"""Readings that are shared by those who ask at one moment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from agent.adapters.together import Together


class Counted:
    """Answers each key with the number of the reading, and can be held up."""

    def __init__(self) -> None:
        self.readings: list[tuple[str, ...]] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.cancelled = 0

    async def read(self, keys: tuple[str, ...]) -> Mapping[str, tuple[str, int]]:
        self.readings.append(keys)
        number = len(self.readings)
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return {key: (key, number) for key in keys}


async def test_those_who_ask_at_one_moment_share_a_reading() -> None:
    counted = Counted()
    together = Together(counted.read)
    answers = await asyncio.gather(*(together.ask(key) for key in ("a", "b", "a")))
    assert answers == [("a", 1), ("b", 1), ("a", 1)]
    assert counted.readings == [("a", "b")]


async def test_who_asks_while_a_reading_is_under_way_gets_a_later_one() -> None:
    counted = Counted()
    together = Together(counted.read)
    counted.go_on.clear()
    first = asyncio.create_task(together.ask("a"))
    while not counted.readings:
        await asyncio.sleep(0.001)
    second = asyncio.create_task(together.ask("a"))
    await asyncio.sleep(0.02)
    counted.go_on.set()
    assert (await first, await second) == (("a", 1), ("a", 2))


async def test_what_a_reading_raises_is_raised_by_every_asker() -> None:
    async def broken(_: tuple[str, ...]) -> Mapping[str, int]:
        raise ZeroDivisionError

    together = Together(broken)
    found = await asyncio.gather(together.ask("a"), together.ask("b"), return_exceptions=True)
    assert [type(one) for one in found] == [ZeroDivisionError, ZeroDivisionError]


async def test_an_asker_that_leaves_takes_nothing_from_the_others() -> None:
    counted = Counted()
    together = Together(counted.read)
    leaves, stays = asyncio.create_task(together.ask("a")), asyncio.create_task(together.ask("b"))
    await asyncio.sleep(0)
    leaves.cancel()
    assert await stays == ("b", 1)
    with pytest.raises(asyncio.CancelledError):
        await leaves


async def test_a_reading_that_nobody_waits_for_ends() -> None:
    counted = Counted()
    together = Together(counted.read)
    counted.go_on.clear()
    asker = asyncio.create_task(together.ask("a"))
    while not counted.readings:
        await asyncio.sleep(0.001)
    asker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asker
    await asyncio.sleep(0)
    assert counted.cancelled == 1
    counted.go_on.set()
    assert await together.ask("a") == ("a", 2)
