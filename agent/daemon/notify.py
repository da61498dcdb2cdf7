"""Tells people what the fleet goes through: listens, sends, tries again, and shows what does not arrive."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from agent.action.store import Event, Store
from agent.action.telling import Digest, Manners, Message, Weight
from agent.adapters.notify import AppriseSender, Service, beat, services_of
from agent.clock import Clock
from agent.daemon.fleet import Fleet
from agent.errors import AgentError, Refused
from agent.metrics.snapshot import CollectorFigures
from agent.settings.model import Notifications
from agent.wiring import Parts

log = structlog.get_logger()

WAITS_S = (5.0, 30.0, 120.0, 600.0)
"""Before the second, third, … try; the last one again and again."""
GIVEN_UP_S = 86_400.0
MOST_LETTERS = 200
LOOK_S = 3600.0
MESSAGES, HEARTBEAT = "notify", "heartbeat"
THE_FILES = "the services of the site file"


@dataclass(frozen=True, slots=True)
class Means:
    """What telling needs. `secret` reads a file of secrets; `told` keeps an event and passes it on."""

    fleet: Fleet
    clock: Clock
    settings: Callable[[], Notifications]
    secret: Callable[[Path], str]
    send: Callable[[Service, Message], Awaitable[str | None]]
    beat: Callable[[str], Awaitable[str | None]]
    told: Callable[[Event], Awaitable[None]]
    collectors: dict[str, CollectorFigures]


def notifier_for(parts: Parts, fleet: Fleet, store: Store, collectors: dict[str, CollectorFigures]) -> Notifier:
    """One for this site."""

    async def told(event: Event) -> None:
        try:
            fleet.told(await store.add_event(event))
        except AgentError as error:  # a full disk costs the event, never the message
            log.warning("event_lost", text=event.text, reason=error.text)

    return Notifier(
        Means(
            fleet=fleet,
            clock=parts.clock,
            settings=lambda: parts.settings.notifications,
            secret=lambda path: parts.secret_file(path.name, path),
            send=AppriseSender(parts.veil.text).send,
            beat=beat,
            told=told,
            collectors=collectors,
        )
    )


@dataclass(slots=True)
class Letter:
    """A message on its way to one service."""

    service: Service
    message: Message
    written: float
    next_try: float
    tries: int = 0


class Notifier:
    """Two tasks: `listen` writes letters, `carry` takes them out; and `pulse` for the dead-man switch."""

    def __init__(self, means: Means) -> None:
        self._by = means
        self._digest = Digest()
        self._letters: list[Letter] = []
        self._posted = asyncio.Event()
        self._failing: set[str] = set()

    # -- what is told -------------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Events become messages, a few at a time."""
        async with self._by.fleet.events() as queue:
            self._digest.adopt([board.record for board in self._by.fleet.boards.values()], self._now())
            while True:
                if (event := await self._next(queue)) is not None:
                    self._digest.see(event, self._now(), self._manners())
                if (message := self._digest.take(self._now(), self._manners())) is not None:
                    await self._post(message)

    async def _next(self, queue: asyncio.Queue[Event]) -> Event | None:
        due = self._digest.due(self._manners())
        try:
            async with asyncio.timeout(LOOK_S if due is None else max(0.0, due - self._now())):
                return await queue.get()
        except TimeoutError:
            return None

    def _manners(self) -> Manners:
        wants = self._by.settings()
        return Manners(platform.node(), wants.group_s, wants.repeat_s, wants.title, wants.body)

    def _now(self) -> float:
        return self._by.clock.now().mono

    async def services(self) -> list[Service]:
        """As the files are now: a key that was replaced is used at once."""
        return await asyncio.to_thread(services_of, self._by.settings().services, self._by.secret)

    async def _post(self, message: Message) -> None:
        try:
            services = await self.services()
        except AgentError as error:
            await self._failed(THE_FILES, error.text)
            return
        await self._works(THE_FILES)
        now = self._now()
        self._letters += [Letter(service, message, now, now) for service in services]
        del self._letters[:-MOST_LETTERS]
        self._posted.set()

    # -- how it gets there --------------------------------------------------------------------------------------------

    async def carry(self) -> None:
        """Take out what is due, all services at once and each in its order; what was not taken is tried again."""
        while True:
            self._posted.clear()
            firsts = {letter.service.name: letter for letter in reversed(self._letters)}.values()
            due = [letter for letter in firsts if letter.next_try <= self._now()]
            if due:
                started = time.monotonic()
                await asyncio.gather(*(self._take_out(letter) for letter in due))
                self._show(MESSAGES, not self._failing - {HEARTBEAT}, time.monotonic() - started)
                continue
            wait = min((letter.next_try for letter in firsts), default=self._now() + LOOK_S) - self._now()
            try:
                async with asyncio.timeout(max(0.0, wait)):
                    await self._posted.wait()
            except TimeoutError:
                continue

    async def _take_out(self, letter: Letter) -> None:
        why = await self._by.send(letter.service, letter.message)
        now = self._now()
        if why is None:
            self._letters.remove(letter)
            await self._works(letter.service.name)
            return
        letter.next_try = now + WAITS_S[min(letter.tries, len(WAITS_S) - 1)]
        letter.tries += 1
        await self._failed(letter.service.name, why)
        if now - letter.written > GIVEN_UP_S:
            self._letters.remove(letter)
            await self._tell(f"gave up to tell {letter.service.name} after a day: {letter.message.title}", {})

    async def _failed(self, name: str, why: str) -> None:
        """Said once, until it works again."""
        self._show(MESSAGES if name != HEARTBEAT else HEARTBEAT, False, 0.0)
        if name in self._failing:
            return
        self._failing.add(name)
        log.warning("not_told", service=name, reason=why)
        await self._tell(f"cannot tell {name}: {why}; it is tried again", {"service": name, "why": why})

    async def _works(self, name: str) -> None:
        if name in self._failing:
            self._failing.discard(name)
            await self._tell(f"tells {name} again", {"service": name})

    async def _tell(self, text: str, data: Mapping[str, Any]) -> None:
        await self._by.told(Event(self._by.clock.now().wall, "", "agent", text, data))

    def _show(self, collector: str, good: bool, seconds: float) -> None:
        self._by.collectors[collector] = CollectorFigures(good, seconds)

    async def test(self) -> list[tuple[str, str | None]]:
        """One message to every service, now and once: its name, and why it did not take it."""
        host = platform.node()
        text = "This is a test, asked for with agentctl notify test. Nothing is wrong."
        message = Message(f"{host}: a test", text, Weight.INFO)
        services = await self.services()
        if not services:
            raise Refused(why="the site file names no service to tell", advice="notifications.services in agent.yaml")
        answers = await asyncio.gather(*(self._by.send(service, message) for service in services))
        return [(service.name, why) for service, why in zip(services, answers, strict=True)]

    # -- the dead-man switch ------------------------------------------------------------------------------------------

    async def pulse(self) -> None:
        """Beats while every deployment is looked after; silence is the alarm, so nothing else may make it quiet."""
        while True:
            wants = self._by.settings()
            if wants.heartbeat is not None:
                await self._beat(wants.heartbeat)
            await asyncio.sleep(wants.heartbeat_s)

    async def _beat(self, file: Path) -> None:
        if (why := self._by.fleet.turning()) is not None:
            log.warning("no_heartbeat", reason=why)
            return
        started = time.monotonic()
        try:
            url = (await asyncio.to_thread(self._by.secret, file)).strip()
            failed = await self._by.beat(url)
        except AgentError as error:
            failed = error.text
        if failed is not None:
            await self._failed(HEARTBEAT, failed)
            return
        await self._works(HEARTBEAT)
        self._show(HEARTBEAT, True, time.monotonic() - started)
