"""The one token that is asked for."""

from __future__ import annotations

from typing import cast

import pytest

from agent.engines.model import EngineKind, EngineLaunch, Request
from agent.engines.registry import dialect_of
from agent.samples.ask import ask_canary
from agent.samples.port import Answer, Endpoint, Probe


class Listening:
    """An engine that keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    async def ask(self, at: Endpoint, request: Request, timeout_s: float) -> Answer:
        self.asked.append(request)
        return Answer(200, '{"choices": [{"text": "x"}]}', 0.1)


@pytest.mark.parametrize(
    ("kind", "rank", "header"),
    [
        (EngineKind.VLLM, "1", {"X-data-parallel-rank": "1"}),
        (EngineKind.SGLANG, "1/tp3", {"X-data-parallel-rank": "1"}),
        (EngineKind.VLLM, "", {}),
        (EngineKind.LLAMACPP, "1", {}),
    ],
)
async def test_one_rank_is_asked_where_the_engine_can_be(kind: EngineKind, rank: str, header: dict[str, str]) -> None:
    """The least loaded rank answers a request that names none: never one that hangs with its work."""
    probe = Listening()
    at, launch = Endpoint("127.0.0.1", 1), EngineLaunch(kind)
    canary = await ask_canary(cast(Probe, probe), at, dialect_of(kind), launch, "n", 5.0, rank)
    assert canary.token
    assert probe.asked[0].headers == header
