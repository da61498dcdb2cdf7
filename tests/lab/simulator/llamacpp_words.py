"""/v1/completions and /v1/chat/completions in llama.cpp's words: timings at the end, no `[DONE]` after a death."""

from __future__ import annotations

import secrets
import time
from typing import Any

from . import prompts
from .ask import Ask, Reader, Refused
from .dialect import World
from .engine_client import EngineClient
from .httpd import Reply
from .ledger import EngineDead, Sequence
from .openai import OpenAI, dump, merge
from .prompts import BadPrompt, Prompt
from .sequences import Output

FINGERPRINT = "b0-unknown"


class LlamaReader(Reader):
    """Any model's name will do: there is but one."""

    most_of_a_completion = None

    def _check_model(self, model: str) -> None:
        return

    def _prompts(self, body: dict[str, Any], *, chat: bool) -> list[Prompt]:
        block = self.launch.block_size
        try:
            asked = [prompts.of_chat(body, block)] if chat else prompts.of_completion(body, block)
        except BadPrompt:
            key = "messages" if chat else "prompt"
            text = f"[json.exception.out_of_range.403] key '{key}' not found"
            raise Refused(400, text, "invalid_request_error") from None
        for prompt in asked:
            if prompt.tokens > self.launch.max_model_len:
                text = (
                    f"request ({prompt.tokens} tokens) exceeds the available context size "
                    f"({self.launch.max_model_len} tokens), try increasing it"
                )
                raise Refused(400, text, "exceed_context_size_error")
        return asked if self.launch.prefix_caching else [Prompt(p.tokens) for p in asked]


class LlamaWords(OpenAI):
    """The two endpoints."""

    def __init__(self, world: World, engine: EngineClient) -> None:
        super().__init__(world.launch, world.settings, engine)
        self.reader = LlamaReader(world.launch, world.settings)
        self.name = world.launch.names[0]

    def refuse(self, reply: Reply, refused: Refused) -> None:
        """An error in its own form, and the connection's end."""
        reply.connection.keep = False
        reply.json({"error": {"code": refused.status, "message": refused.message, "type": refused.kind}},
                   refused.status)  # fmt: skip

    async def _stream(self, ask: Ask, sequences: list[Sequence], reply: Reply) -> None:
        reply.stream()
        try:
            if ask.chat:
                await reply.event(dump(self._event(ask, 0, {"role": "assistant", "content": None}, None)))
            async for place, output, start in merge(sequences):
                if output.tokens:
                    text = prompts.words(start, output.tokens)
                    await reply.event(dump(self._event(ask, place, {"content": text} if ask.chat else text, None)))
                if output.reason:
                    await reply.event(dump(self._last(ask, place, output, sequences[place])))
        except EngineDead:
            reply.connection.close()
            return
        await reply.event("[DONE]")
        reply.end()

    def _event(self, ask: Ask, place: int, piece: dict[str, Any] | str, reason: str | None) -> dict[str, Any]:
        choice: dict[str, Any] = (
            {"finish_reason": reason, "index": place, "delta": piece}
            if ask.chat
            else {"text": piece, "index": place, "logprobs": None, "finish_reason": reason}
        )
        kind = "chat.completion.chunk" if ask.chat else "text_completion"
        return {"choices": [choice], "created": int(time.time()), "model": self.name,
                "system_fingerprint": FINGERPRINT, "object": kind, "id": ask.id}  # fmt: skip

    def _last(self, ask: Ask, place: int, output: Output, sequence: Sequence) -> dict[str, Any]:
        event = self._event(ask, place, {} if ask.chat else "", output.reason)
        return {**event, "usage": _usage([sequence], output.cached), "timings": timings(sequence, output.cached)}

    async def _whole(self, ask: Ask, sequences: list[Sequence], reply: Reply) -> None:
        reasons, cached = [""] * len(sequences), 0
        async for place, output, _ in merge(sequences):
            reasons[place] = output.reason
            cached = max(cached, output.cached)
        choices: list[dict[str, Any]] = []
        for place, sequence in enumerate(sequences):
            text = prompts.words(0, sequence.tokens)
            said: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if ask.chat else {"text": text}
            choices.append({**said, "index": place, "logprobs": None, "finish_reason": reasons[place]})
        kind = "chat.completion" if ask.chat else "text_completion"
        body = {"choices": choices, "created": int(time.time()), "model": self.name,
                "system_fingerprint": FINGERPRINT, "object": kind, "usage": _usage(sequences, cached),
                "id": f"chatcmpl-{secrets.token_urlsafe(24)}", "timings": timings(sequences[0], cached)}  # fmt: skip
        reply.send(200, dump(body).encode(), "application/json; charset=utf-8")


def _usage(sequences: list[Sequence], cached: int) -> dict[str, Any]:
    prompt, completion = sequences[0].prompt, sum(s.tokens for s in sequences)
    return {"completion_tokens": completion, "prompt_tokens": prompt, "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached}}  # fmt: skip


def timings(sequence: Sequence, cached: int) -> dict[str, float]:
    """How long the prompt and the answer took, in milliseconds of the engine."""
    prompt_ms = (sequence.first_at - sequence.arrived) * 1000
    predicted_ms = (sequence.last_at - sequence.first_at) * 1000
    fresh = sequence.prompt - cached
    return {
        "cache_n": cached, "prompt_n": fresh, "prompt_ms": prompt_ms, "prompt_per_token_ms": _share(prompt_ms, fresh),
        "prompt_per_second": _share(fresh * 1000, prompt_ms), "predicted_n": sequence.tokens,
        "predicted_ms": predicted_ms, "predicted_per_token_ms": _share(predicted_ms, sequence.tokens),
        "predicted_per_second": _share(sequence.tokens * 1000, predicted_ms),
    }  # fmt: skip


def _share(part: float, of: float) -> float:
    return part / of if of else 0.0
