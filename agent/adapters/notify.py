"""Messages to people through Apprise, and the beat of a dead-man switch. The only importer of apprise."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from agent.action.telling import Message, Weight
from agent.errors import AgentError, InvalidInput

LONGEST_S = 60.0
"""Apprise's own time-outs are 4 s a connection and 4 s an answer; a service may need several."""
BEAT_S = 10.0
SHORTEST = 6
"""A shorter word of a URL is no key, and too likely to be a part of other words."""
TYPES = {Weight.INFO: "info", Weight.GOOD: "success", Weight.WARNING: "warning", Weight.CRITICAL: "failure"}


class NotToBeSent(InvalidInput):
    """A service that the site names cannot be used at all."""

    code = "notify.service"
    message = "cannot use {service}: {why}"
    hint = "notifications.services in agent.yaml names files with one Apprise URL a line"


class NoApprise(AgentError):
    """The optional library is not installed."""

    code = "notify.library"
    message = "cannot send messages: the Python package apprise is not installed"
    hint = "pip install 'recipe-agent[notify]'"


@dataclass(frozen=True, slots=True)
class Service:
    """Where to send: `name` says which line of which file, `url` is secret."""

    name: str
    url: str

    def __repr__(self) -> str:
        return f"Service({self.name})"


def services_of(files: Sequence[Path], read: Callable[[Path], str]) -> list[Service]:
    """Every service of the files; lines that are empty or begin with # are passed over. `read` raises AgentError."""
    found = []
    for file in files:
        for number, line in enumerate(read(file).splitlines(), start=1):
            if line.strip() and not line.lstrip().startswith("#"):
                found.append(Service(f"{file.name} line {number}", line.strip()))
    return found


class AppriseSender:
    """Sends one message to one service. `clean` takes what is secret out of what a service said."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean

    async def send(self, service: Service, message: Message) -> str | None:
        """None when it was taken, else why not."""
        try:
            async with asyncio.timeout(LONGEST_S):
                why = await asyncio.to_thread(deliver, service, message)
        except TimeoutError:
            why = f"it was not done within {LONGEST_S:.0f} s"
        except AgentError as error:
            why = error.text
        return why if why is None else self._clean(why)


def deliver(service: Service, message: Message) -> str | None:
    """In a thread: Apprise blocks."""
    library = imported()
    target = library.Apprise()
    if not target.add(service.url):
        raise NotToBeSent(service=service.name, why="it is no URL that Apprise knows")
    kind = library.NotifyType(TYPES[message.weight])
    with library.LogCapture(level=library.logging.WARNING, fmt="%(message)s") as said:
        taken = target.notify(title=message.title, body=message.body, notify_type=kind)
        words = said.getvalue().strip().replace("\n", "; ")
    return None if taken else without(words, service.url) or "the service did not take it"


def without(text: str, url: str) -> str:
    """`text` without any longer word of the URL: which of them are keys is another matter with each service."""
    words = sorted((word for word in re.split(r"[/:@?&=,#]+", url)[1:] if len(word) >= SHORTEST), key=len, reverse=True)
    for word in words:
        text = text.replace(word, "…")
    return text


def imported() -> Any:
    """Apprise, which takes a third of a second to import and is needed by few."""
    try:
        import apprise
    except ImportError:
        raise NoApprise from None
    return apprise


async def beat(url: str) -> str | None:
    """Tell a dead-man switch that all is well; None when it heard it, else why not."""
    try:
        timeout = aiohttp.ClientTimeout(total=BEAT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
            return None if answer.status < 400 else f"it answered {answer.status}"
    except TimeoutError:
        return f"no answer within {BEAT_S:.0f} s"
    except (aiohttp.ClientError, ValueError, OSError) as error:
        return f"{type(error).__name__}: {getattr(error, 'strerror', None) or 'the connection failed'}"
