"""The body of a request to the OpenAI endpoints: read, checked, refused in vLLM's words."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Any

from . import prompts
from .flags import Launch
from .httpd import Request
from .prompts import BadPrompt, Prompt
from .settings import Settings

RANK_HEADER = "x-data-parallel-rank"


@dataclass(frozen=True, slots=True)
class Ask:
    """A checked request body."""

    chat: bool
    id: str
    model: str
    prompts: list[Prompt]
    n: int
    max_tokens: int
    stops_at: int | None
    stream: bool
    usage: bool
    running_usage: bool
    created: int
    rank: int | None
    """The data-parallel rank that is to take it."""


class Refused(Exception):
    """The request is answered with an error."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.kind, self.param = status, message, kind, param


class Reader:
    """Reads bodies of both endpoints as this launch allows."""

    most_of_a_completion: int | None = 16
    """Tokens of a completion that does not say how many it wants; None: as many as there is room for."""

    def __init__(self, launch: Launch, settings: Settings) -> None:
        self.launch = launch
        self.settings = settings

    def read(self, request: Request, *, chat: bool) -> Ask:
        """The body, checked. Raises Refused."""
        try:
            body = request.json()
            body = body if isinstance(body, dict) else {}
        except ValueError:
            raise Refused(400, "Invalid JSON body", "BadRequestError") from None
        self._check_model(body.get("model") or self.launch.names[0])
        asked = self._prompts(body, chat=chat)
        longest = max(p.tokens for p in asked)
        limit = (
            body.get("max_completion_tokens") or body.get("max_tokens") or (None if chat else self.most_of_a_completion)
        )
        room = self.launch.max_model_len - longest
        options = body.get("stream_options") or {}
        return Ask(
            chat=chat,
            id=f"{'chatcmpl' if chat else 'cmpl'}-{secrets.token_hex(8)}",
            model=body.get("model") or self.launch.names[0],
            prompts=asked,
            n=int(body.get("n") or 1),
            max_tokens=min(int(limit or room), room),
            stops_at=None if body.get("ignore_eos") else self.settings.eos_tokens,
            stream=bool(body.get("stream")),
            usage=bool(options.get("include_usage")),
            running_usage=bool(options.get("continuous_usage_stats")),
            created=int(time.time()),
            rank=self._rank(request),
        )

    def _rank(self, request: Request) -> int | None:
        """By its header; what is no number is not read."""
        named, ranks = request.headers.get(RANK_HEADER, ""), self.launch.data_parallel
        if not named.isdecimal():
            return None
        if int(named) >= ranks:
            raise Refused(400, f"data_parallel_rank {named} is out of range [0, {ranks}).", "BadRequestError")
        return int(named)

    def _check_model(self, model: str) -> None:
        if model not in self.launch.names:
            text = f"The model `{model}` does not exist. Valid aliases: {', '.join(self.launch.names)}."
            raise Refused(404, text, "NotFoundError", "model")

    def _prompts(self, body: dict[str, Any], *, chat: bool) -> list[Prompt]:
        block = self.launch.block_size
        try:
            asked = [prompts.of_chat(body, block)] if chat else prompts.of_completion(body, block)
        except BadPrompt as bad:
            raise Refused(400, str(bad), "BadRequestError", "messages" if chat else "prompt") from None
        for prompt in asked:
            if prompt.tokens >= self.launch.max_model_len:
                raise Refused(400, self._too_long(prompt.tokens), "BadRequestError", "input_tokens")
        if not self.launch.prefix_caching:
            return [Prompt(p.tokens) for p in asked]
        return asked

    def _too_long(self, tokens: int) -> str:
        return (
            f"This model's maximum context length is {self.launch.max_model_len} tokens. However, your prompt "
            f"contains at least {tokens} input tokens, which exceeds this limit even without any output tokens. "
            f"Please reduce the length of the input prompt. (parameter=input_tokens, value={tokens})"
        )
