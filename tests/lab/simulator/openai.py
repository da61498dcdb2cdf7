"""/v1/completions and /v1/chat/completions in vLLM's words, streamed or whole."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from . import prompts
from .ask import Ask, Reader, Refused
from .engine_client import EngineClient, Limits
from .flags import Launch
from .httpd import Reply, Request
from .ledger import EngineDead, Sequence
from .sequences import Output
from .settings import Settings


class OpenAI:
    """The two endpoints. `in_flight` is what GET /load shows."""

    def __init__(self, launch: Launch, settings: Settings, engine: EngineClient) -> None:
        self.reader = Reader(launch, settings)
        self.engine = engine
        self.in_flight = 0
        self.fingerprint = f"vllm-{settings.version}-{secrets.token_hex(4)}"

    async def completions(self, request: Request, reply: Reply) -> None:
        """POST /v1/completions."""
        await self._serve(request, reply, chat=False)

    async def chat(self, request: Request, reply: Reply) -> None:
        """POST /v1/chat/completions."""
        await self._serve(request, reply, chat=True)

    async def _serve(self, request: Request, reply: Reply, *, chat: bool) -> None:
        try:
            ask = self.reader.read(request, chat=chat)
            with self._running(ask) as sequences:
                await (self._stream(ask, sequences, reply) if ask.stream else self._whole(ask, sequences, reply))
        except Refused as refused:
            self.refuse(reply, refused)
        except EngineDead as dead:
            reply.error(500, str(dead), "InternalServerError")

    def refuse(self, reply: Reply, refused: Refused) -> None:
        """An error as OpenAI's API words it."""
        reply.error(refused.status, refused.message, refused.kind, refused.param)

    @contextmanager
    def _running(self, ask: Ask) -> Iterator[list[Sequence]]:
        """Sequences in the engine; whatever ends the block, those left over are told as hung up."""
        if self.engine.stopping:
            raise Refused(500, "cannot schedule new futures after shutdown", "InternalServerError")
        if self.engine.paused in {"abort", "wait"}:
            raise Refused(503, "Generation is paused.", "ServiceUnavailableError")
        sequences: list[Sequence] = []
        self.in_flight += 1
        try:
            for place, prompt in enumerate(p for p in ask.prompts for _ in range(ask.n)):
                name = f"{ask.id}-{place}-{secrets.token_hex(4)}"
                limits = Limits(ask.max_tokens, ask.stops_at, ask.n)
                sequences.append(self.engine.add(name, prompt, limits, ask.rank))
                sequences[-1].streamed = ask.stream
            yield sequences
        finally:
            self.in_flight -= 1
            for sequence in sequences:
                self.engine.hung_up(sequence)

    async def _stream(self, ask: Ask, sequences: list[Sequence], reply: Reply) -> None:
        reply.stream()
        try:
            if ask.chat:
                for place in range(len(sequences)):
                    await reply.event(dump(self._chunk(ask, place, {"role": "assistant", "content": ""}, None)))
            async for place, output, start in merge(sequences):
                await reply.event(dump(self._piece(ask, place, output, start, sequences)))
            if ask.usage:
                await reply.event(dump({**self._base(ask, chunk=True), "choices": [], "usage": _usage(ask, sequences),
                                   "system_fingerprint": self.fingerprint}))  # fmt: skip
        except EngineDead as dead:
            error = {"message": str(dead), "type": "InternalServerError", "param": None, "code": 500}
            await reply.event(json.dumps({"error": error}))
        await reply.event("[DONE]")
        reply.end()

    def _piece(self, ask: Ask, place: int, output: Output, start: int, sequences: list[Sequence]) -> dict[str, Any]:
        text, reason = prompts.words(start, output.tokens), output.reason or None
        if ask.chat:
            piece = self._chunk(ask, place, {"content": text}, reason)
        else:
            choice = {"index": place, "text": text, "logprobs": None, "finish_reason": reason, "stop_reason": None,
                      "prompt_token_ids": None, "token_ids": None}  # fmt: skip
            piece = {**self._base(ask, chunk=True), "choices": [choice]}
        if ask.running_usage:
            piece["usage"] = _usage(ask, sequences)
        if reason:
            piece["system_fingerprint"] = self.fingerprint
        return piece

    def _chunk(self, ask: Ask, place: int, delta: dict[str, str], reason: str | None) -> dict[str, Any]:
        choice = {"index": place, "delta": delta, "logprobs": None, "finish_reason": reason, "token_ids": None}
        return {**self._base(ask, chunk=True), "choices": [choice]}

    def _base(self, ask: Ask, *, chunk: bool) -> dict[str, Any]:
        kind = ("chat.completion.chunk" if chunk else "chat.completion") if ask.chat else "text_completion"
        return {"id": ask.id, "object": kind, "created": ask.created, "model": ask.model}

    async def _whole(self, ask: Ask, sequences: list[Sequence], reply: Reply) -> None:
        reasons = [""] * len(sequences)
        async for place, output, _ in merge(sequences):
            reasons[place] = output.reason
        choices = [self._choice(ask, place, s, reasons[place]) for place, s in enumerate(sequences)]
        usage = {**_usage(ask, sequences), "prompt_tokens_details": None, "completion_tokens_details": None}
        reply.json({**self._base(ask, chunk=False), "choices": choices, "service_tier": None,
                    "system_fingerprint": self.fingerprint, "usage": usage, "kv_transfer_params": None,
                    "ec_transfer_params": None, "metrics": None})  # fmt: skip

    def _choice(self, ask: Ask, place: int, sequence: Sequence, reason: str) -> dict[str, Any]:
        text = prompts.words(0, sequence.tokens)
        tail = {
            "logprobs": None,
            "finish_reason": reason,
            "stop_reason": None,
            "token_ids": None,
            "routed_experts": None,
        }
        if ask.chat:
            message = {"role": "assistant", "content": text, "refusal": None, "annotations": None, "audio": None,
                       "function_call": None, "reasoning": None}  # fmt: skip
            return {"index": place, "message": message, **tail}
        return {"index": place, "text": text, **tail, "prompt_logprobs": None, "prompt_token_ids": None}


def dump(value: dict[str, Any]) -> str:
    """An event's text."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _usage(ask: Ask, sequences: list[Sequence]) -> dict[str, int]:
    prompt, completion = sum(p.tokens for p in ask.prompts), sum(s.tokens for s in sequences)
    return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}


async def merge(sequences: list[Sequence]) -> AsyncIterator[tuple[int, Output, int]]:
    """Outputs of all sequences as they come: place, output, tokens before it. Raises EngineDead."""
    starts = [0] * len(sequences)
    waiting = {asyncio.ensure_future(s.outputs.take()): place for place, s in enumerate(sequences)}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                place, output = waiting.pop(task), task.result()
                yield place, output, starts[place]
                starts[place] += output.tokens
                if not output.reason:
                    waiting[asyncio.ensure_future(sequences[place].outputs.take())] = place
    finally:
        for task in waiting:
            task.cancel()
