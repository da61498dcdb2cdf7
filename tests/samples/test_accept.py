"""What a stream proves, and what it does not."""

from __future__ import annotations

import json

import pytest

from agent.engines.model import EngineKind, EngineLaunch, EngineReading, RankReading, Request
from agent.plan.model import Acceptance
from agent.samples.accept import Applicant, accept, read_stream
from agent.samples.model import Health, Missed
from agent.samples.port import Answer, Endpoint


def sse(*events: object) -> str:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


def piece(text: str, end: str | None = None) -> dict[str, object]:
    return {"choices": [{"text": text, "finish_reason": end}]}


@pytest.mark.parametrize(
    ("status", "text", "ok", "said"),
    [
        (
            200,
            sse(piece("1"), piece("2", "length"), {"choices": [], "usage": {"completion_tokens": 2}}),
            True,
            "2 tokens",
        ),
        (200, sse(piece("1", "stop")), True, "1 tokens"),
        (200, sse(piece("1"), {"error": {"message": "EngineCore died"}}), False, "EngineCore died"),
        (200, sse(), False, "after 0 of 2"),
        (200, sse(piece("1")), False, "after 1 of 2"),
        (500, "boom", False, "answered with 500"),
    ],
)
def test_tokens_count_and_nothing_else(status: int, text: str, ok: bool, said: str) -> None:
    """A status of 200 and a [DONE] prove nothing; a model that stops by itself has worked."""
    found = read_stream(Answer(status, text, 1.0), 2)
    assert found.ok is ok
    assert said in found.why


class Engine:
    """An engine that streams two tokens and counts its drafts, or does not."""

    def __init__(self, *, drafts_move: bool) -> None:
        self.drafts = 0.0
        self.moves = drafts_move

    async def ask(self, at: Endpoint, request: Request, timeout_s: float) -> Answer | Missed:
        self.drafts += self.moves
        return Answer(200, sse(piece("1"), piece("2", "length")), 0.1)

    async def metrics(self, at: Endpoint, path: str, timeout_s: float) -> str | Missed:
        return str(self.drafts)

    async def health(self, at: Endpoint, path: str, timeout_s: float) -> Health | Missed:
        return Health(200, 0.0)

    async def close(self) -> None:
        return


def reading(text: str) -> EngineReading:
    return EngineReading(ranks=(RankReading("0", progress={"drafts": float(text)}),))


@pytest.mark.parametrize(
    ("moves", "unseen", "ok", "said"),
    [
        (True, (), True, "everything"),
        (False, (), False, "drafts"),
        (True, ("graphs captured",), False, "graphs captured"),
    ],
)
async def test_counters_and_lines_are_wanted_too(moves: bool, unseen: tuple[str, ...], ok: bool, said: str) -> None:
    """Speculative decoding that is silently off does not move its counter, whatever the stream says."""
    launch = EngineLaunch(EngineKind.VLLM, port=1, metrics="/metrics")
    applicant = Applicant(Endpoint("127.0.0.1", 1), launch, reading, lambda: unseen)
    found = await accept(Engine(drafts_move=moves), applicant, Acceptance(2, unseen, ("drafts",)), "n")
    assert found.ok is ok
    assert said in found.why
