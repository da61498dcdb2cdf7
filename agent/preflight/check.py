"""The shape of a check: an id, when it applies, and one question to the host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.preflight.case import Case
from agent.preflight.model import Level


@dataclass(frozen=True, slots=True)
class Answer:
    """What a check says. `need` and `origin` come from the plan's requirement of the same id where left empty."""

    level: Level
    found: str
    need: str = ""
    origin: str = ""
    hint: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


def always(_: Case) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Check:
    """One question. `look` may raise nothing that it foresees; what it does not foresee ends as `unknown`.

    `required`: an unknown answer refuses, as a fail does. So it does for a check that the plan has a requirement for,
    unless it is `advisory`: that one only ever warns.
    """

    id: str
    about: str
    """One line for people: what is asked."""
    look: Callable[[Case], Awaitable[Answer]]
    applies: Callable[[Case], bool] = always
    required: bool = False
    advisory: bool = False
    deadline_s: float = 10.0


def good(found: str, **more: Any) -> Answer:
    return Answer(Level.PASS, found, **more)


def doubtful(found: str, **more: Any) -> Answer:
    return Answer(Level.WARN, found, **more)


def bad(found: str, **more: Any) -> Answer:
    return Answer(Level.FAIL, found, **more)


def unknown(why: str, **more: Any) -> Answer:
    return Answer(Level.UNKNOWN, why, **more)
