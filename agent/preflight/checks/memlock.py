"""Can the engine lock as much memory as its launch asks for (`--ulimit memlock=-1`)?

A container's start fails with `error setting rlimit type 8: operation not permitted` where it cannot.
"""

from __future__ import annotations

from agent.host.reading import Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, doubtful, good, unknown
from agent.preflight.facts import LockLimit
from agent.quantity import Bytes

ID = "memlock"
UNLIMITED = -1
STOCK_RUNTIMES = ("runc", "crun", "io.containerd.runc.v2", "nvidia")
HINT = "give its service LimitMEMLOCK=infinity (`systemctl edit`) and restart it"


async def look(case: Case) -> Answer:
    need = wanted(case)
    if need is None:
        return good("the launch asks for no more than the default")
    if case.in_container and (silent := await case.no_engine()):
        return unknown(silent.reason)
    reading = await case.facts.lock_limit(case.in_container)
    words = "no limit" if need == UNLIMITED else f"{Bytes(need)}"
    origin = "--ulimit memlock of the launch" if case.in_container and case.need(ID) is None else ""
    if isinstance(reading, Unknown):
        return unknown(reading.reason, need=words, origin=origin)
    limit = reading.value
    details = {"who": limit.who, "hard": limit.hard, "raises": limit.raises}
    if limit.raises or reaches(limit, need):
        return good(f"{limit.who} {may(limit)}", need=words, origin=origin, details=details)
    found = f"{limit.who} may lock {limit.hard} and not raise that"
    if await own_runtime(case):
        hint = "the container engine's runtime is one of your own, which may do otherwise; else: " + HINT
        return doubtful(found, need=words, origin=origin, hint=hint, details=details)
    return bad(found, need=words, origin=origin, hint=HINT, details=details)


def wanted(case: Case) -> int | None:
    """The largest memlock that is asked for, in bytes; -1 for no limit, None where nothing is asked."""
    stated = case.size_needed(ID)
    asked = [int(one.get("Hard", 0)) for one in case.host_config.get("Ulimits") or () if one.get("Name") == "memlock"]
    if stated is not None:
        asked.append(stated)
    return UNLIMITED if UNLIMITED in asked else max(asked, default=None)


def reaches(limit: LockLimit, need: int) -> bool:
    return limit.hard is None or (need != UNLIMITED and limit.hard >= need)


def may(limit: LockLimit) -> str:
    return "may raise it" if limit.raises else f"may lock {'all' if limit.hard is None else limit.hard}"


async def own_runtime(case: Case) -> bool:
    """Whether containers are started by a runtime whose ways we do not know."""
    engine = await case.facts.container_engine()
    name = case.host_config.get("Runtime") or (None if isinstance(engine, Unknown) else engine.value.default_runtime)
    return case.in_container and name is not None and name not in STOCK_RUNTIMES


CHECK = Check(ID, "memory can be locked", look, lambda c: wanted(c) is not None)
