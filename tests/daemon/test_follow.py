"""The log is followed through streams that break, fall behind, or cannot be had; what cannot be read is said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from agent.container.port import ContainerView, LogLine, RunState
from agent.daemon import follow
from agent.daemon.follow import Follower, on_and_on
from agent.errors import RuntimeTrouble

BROKEN = RuntimeTrouble(action="follow a log", why="open …-json.log: no such file or directory")


class Log:
    """A container's log, and streams of it that do as a test says."""

    lags = True

    def __init__(self) -> None:
        self.lines: list[LogLine] = []
        self.stuck_at: int | None = None
        """Streams give nothing from this line on, until they are opened anew."""
        self.trouble: RuntimeTrouble | None = None
        self.ended = False
        self.opened = 0

    def say(self, *texts: str) -> None:
        self.lines += [LogLine(text, float(len(self.lines) + at)) for at, text in enumerate(texts)]

    async def follow(self, container_id: str, since: float | None) -> AsyncIterator[LogLine]:
        if self.trouble is not None:
            raise self.trouble
        self.opened += 1
        stuck, self.stuck_at = self.stuck_at, None
        at = 0
        while True:
            for line in self.lines[at:stuck]:
                at += 1
                if since is None or line.at is None or line.at > since:
                    yield line
            if self.ended:
                return
            await asyncio.sleep(0.005)

    async def tail(self, container_id: str, lines: int) -> tuple[LogLine, ...]:
        if self.trouble is not None:
            raise self.trouble
        return tuple(self.lines[-lines:])

    async def view(self, container_id: str) -> ContainerView:
        state = RunState.EXITED if self.ended else RunState.RUNNING
        return ContainerView("c", "demo", "demo", "p1", 1, state)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "BEHIND_S", 0.05)
    monkeypatch.setattr(follow, "IN_FLIGHT_S", 0.02)
    monkeypatch.setattr(follow, "RECONNECT_S", 0.01)
    monkeypatch.setattr(follow, "LONGEST_WAIT_S", 0.02)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.005)


def follower(log: Log) -> Follower:
    return Follower(log, lambda _: None, lambda: None)  # type: ignore[arg-type]


def texts(one: Follower) -> list[str]:
    return [line.text for line in one.tail.lines]


async def test_a_stream_that_fell_behind_its_log_is_taken_up_again() -> None:
    """Nothing is lost, nothing comes twice, and a log that is merely quiet keeps its stream."""
    log = Log()
    log.stuck_at = 2
    log.say("one", "two")
    one = follower(log)
    await one.attend("c")
    await until(lambda: len(texts(one)) == 2)
    log.say("three", "four")
    await until(lambda: texts(one) == ["one", "two", "three", "four"])
    assert log.opened == 2
    await asyncio.sleep(0.3)
    assert log.opened == 2, "it is quiet, and not behind"
    log.say("five")
    await until(lambda: texts(one)[-1] == "five")
    await one.close()


async def test_a_log_is_read_out_only_when_its_last_line_came() -> None:
    """A stuck stream ends with its container, clean and without its last words."""
    log = Log()
    log.say("one")
    log.stuck_at = 1
    one = follower(log)
    await one.attend("c")
    await until(lambda: texts(one) == ["one"])
    log.say("the reason")
    log.ended = True
    await one.caught_up(5.0)
    assert texts(one) == ["one", "the reason"]
    await one.close()


async def test_a_log_that_cannot_be_read_is_said_until_it_can() -> None:
    """Whether it could never be opened, or is lost under the stream."""
    log = Log()
    log.trouble = BROKEN
    one = follower(log)
    await one.attend("c")
    await until(lambda: "no such file" in one.unread)
    log.trouble = None
    log.say("one")
    await until(lambda: texts(one) == ["one"])
    assert one.unread == ""
    log.trouble = BROKEN
    await until(lambda: "no such file" in one.unread)
    log.trouble = None
    await until(lambda: one.unread == "")
    await one.close()


async def test_a_quiet_log_that_can_be_opened_again_is_readable() -> None:
    """No line has to come for that."""
    log = Log()
    log.lags, log.trouble = False, BROKEN
    one = follower(log)
    await one.attend("c")
    await until(lambda: "no such file" in one.unread)
    log.trouble = None
    await until(lambda: one.unread == "")
    await one.close()


async def test_a_person_s_follow_outlives_a_stream_that_ends_in_silence() -> None:
    """It ends when the container does."""
    log, seen = Log(), list[str]()

    async def read() -> None:
        async for line in on_and_on(log, "c", None):  # type: ignore[arg-type]
            seen.append(line.text)

    reading = asyncio.create_task(read())
    log.say("one")
    await until(lambda: seen == ["one"])
    streams = log.follow
    calls = iter((True, False))

    async def brief(container_id: str, since: float | None) -> AsyncIterator[LogLine]:
        if next(calls, False):
            return
        async for line in streams(container_id, since):
            yield line

    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    log.follow = brief  # type: ignore[method-assign]
    reading = asyncio.create_task(read())
    log.say("two")
    await until(lambda: seen == ["one", "one", "two"])
    log.ended = True
    await reading


async def test_a_runtime_whose_streams_do_not_lag_is_not_asked_again_and_again() -> None:
    """Reading a log's end costs; plain processes' logs are followed by their size."""
    log = Log()
    log.lags = False
    asked: list[int] = []

    async def tail(container_id: str, lines: int) -> tuple[LogLine, ...]:
        asked.append(lines)
        return ()

    log.tail = tail  # type: ignore[method-assign]
    log.say("one")
    one = follower(log)
    await one.attend("c")
    await until(lambda: texts(one) == ["one"])
    await asyncio.sleep(0.3)
    log.ended = True
    await one.caught_up(5.0)
    assert asked == []
    await one.close()


async def test_a_clock_that_was_set_back_keeps_no_line_away() -> None:
    """What is written after it has times before the last line's."""
    log, clock = Log(), [1000.0]
    log.lines.append(LogLine("one", 1000.0))
    one = Follower(log, lambda _: None, lambda: None, wall=lambda: clock[0])  # type: ignore[arg-type]
    log.ended = True  # the stream ends, as one does that is silent for long
    await one.attend("c")
    await until(lambda: texts(one) == ["one"])
    clock[0] = 100.0
    opened = log.opened
    await until(lambda: log.opened > opened + 1)
    log.lines.append(LogLine("the reason", 100.5))
    await until(lambda: texts(one)[-1] == "the reason")
    await one.close()


@pytest.mark.parametrize(
    ("last", "now", "after"), [(None, 5.0, None), (4.0, 5.0, 4.0), (5.5, 5.0, 5.5), (3600.0, 5.0, 5.0)]
)
def test_a_log_goes_on_after_its_last_line_or_now(last: float | None, now: float, after: float | None) -> None:
    assert follow.going_on_at(last, now) == after
