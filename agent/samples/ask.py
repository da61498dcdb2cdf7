"""Questions that only the engine's scheduler can answer: one token, a loop ping; and the order to abort."""

from __future__ import annotations

from collections.abc import Sequence

from agent.engines.dialect import Dialect, aimed, has_token
from agent.engines.model import EngineLaunch, Request, number_of
from agent.samples.model import Canary, Miss, Missed
from agent.samples.port import Endpoint, Probe

ABORT_TIMEOUT_S = 10.0


async def ask_canary(
    probe: Probe, at: Endpoint, dialect: Dialect, launch: EngineLaunch, nonce: str, timeout_s: float, rank: str = ""
) -> Canary:
    """Ask for one token, of one data-parallel rank where it is named and can be. True only where the answer carries
    one: a status proves nothing."""
    request = dialect.canary(launch, nonce)
    of = number_of(rank) if dialect.traits.aims else ""
    answer = await probe.ask(at, aimed(request, of), timeout_s)
    if isinstance(answer, Missed):
        seconds = timeout_s if answer.kind is Miss.TIMEOUT else 0.0
        return Canary(False, seconds, answer.why, timed_out=answer.kind is Miss.TIMEOUT, rank=of)
    if has_token(answer.status, answer.text):
        return Canary(True, answer.seconds, f"one token in {answer.seconds:.2f} s", rank=of)
    why = f"{request.path} answered {answer.status} without a token"
    return Canary(False, answer.seconds, why, status=answer.status, rank=of)


async def send_all(probe: Probe, at: Endpoint, requests: Sequence[Request], last: Sequence[Request]) -> str:
    """Send orders one after the other; `last` whatever became of the others. The sentence says what was answered."""
    said: list[str] = []
    try:
        said += [await send(probe, at, request) for request in requests]
    finally:
        said += [await send(probe, at, request) for request in last]
    return ", ".join(said)


async def send(probe: Probe, at: Endpoint, request: Request) -> str:
    answer = await probe.ask(at, request, ABORT_TIMEOUT_S)
    return answer.why if isinstance(answer, Missed) else f"{request.path}: {answer.status}"
