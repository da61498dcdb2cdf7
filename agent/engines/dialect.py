"""What every engine's file answers. Pure: words, texts and lines in, values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from agent.engines.exposition import read_json
from agent.engines.model import (
    Aborts,
    Command,
    EngineKind,
    EngineLaunch,
    EngineReading,
    LogEvent,
    Pong,
    Request,
    Task,
    Traits,
    number_of,
)
from agent.errors import AgentError, InvalidInput

RANK_HEADER = "X-data-parallel-rank"
TAG = "recipe-agent-canary"
"""Stands in every canary's prompt and `user`, so that an operator can tell it in any log."""


class Dialect(Protocol):
    """One engine's habits."""

    @property
    def kind(self) -> EngineKind: ...

    @property
    def traits(self) -> Traits: ...

    def recognise(self, command: Command) -> bool:
        """This command starts this engine."""
        ...

    def describe(self, command: Command) -> EngineLaunch:
        """What its flags and environment say, with the engine's own defaults. Only for a recognised command."""
        ...

    def read_metrics(self, text: str) -> EngineReading:
        """One scrape. Raises InvalidInput for what is no metrics of any engine; never anything else."""
        ...

    def read_log(self, line: str) -> LogEvent | None:
        """What one line means, None for nothing."""
        ...

    def pings(self, launch: EngineLaunch) -> tuple[Request, ...]:
        """Questions that only the scheduler's loop can answer and that cost it nothing; empty where there are none."""
        ...

    def read_pong(self, status: int, text: str, now: float) -> Pong:
        """The answer to one of them; `now` in seconds since the epoch, for heartbeats that carry a time."""
        ...

    def aborts(self, launch: EngineLaunch) -> Aborts:
        """How to end requests that nobody waits for."""
        ...

    def canary(self, launch: EngineLaunch, nonce: str) -> Request:
        """One request for one token, unlike any before (`nonce`), so that no cache answers it."""
        ...


def refused(status: int) -> Pong | None:
    """A question that was turned away (no such path, no key, another method) says nothing about the scheduler."""
    return Pong(alive=None) if 400 <= status < 500 else None


class Silent:
    """What an engine offers that offers nothing beyond the OpenAI API; the other dialects override what they have."""

    def read_metrics(self, text: str) -> EngineReading:
        raise InvalidInput(what="this engine's metrics", why="it has none whose meaning is known")

    def pings(self, launch: EngineLaunch) -> tuple[Request, ...]:
        return ()

    def read_pong(self, status: int, text: str, now: float) -> Pong:
        return Pong(alive=None)

    def aborts(self, launch: EngineLaunch) -> Aborts:
        return Aborts()

    def canary(self, launch: EngineLaunch, nonce: str) -> Request:
        return ask_one_token(launch, nonce)


def join(pongs: Sequence[Pong]) -> Pong:
    """Several answers as one: dead if one says so, asleep if one says so, the oldest heartbeat, all positions."""
    told = [pong.alive for pong in pongs if pong.alive is not None]
    ages = [pong.age for pong in pongs if pong.age is not None]
    positions = [pong.position for pong in pongs if pong.position is not None]
    return Pong(
        alive=all(told) if told else None,
        asleep=any(pong.asleep for pong in pongs),
        age=max(ages) if ages else None,
        position=" ".join(positions) if positions else None,
    )


def aimed(request: Request, rank: str) -> Request:
    """The same for one data-parallel rank (`1`, or `1/tp2` by one of its schedulers): without it the ranks take turns,
    or the least loaded one answers. vLLM takes the header since vllm-project/vllm#24945 (autumn 2025), SGLang since
    sgl-project/sglang#19832 (March 2026); whether this version does is seen, not assumed (`agent.samples.canaries`)."""
    number = number_of(rank)
    return replace(request, headers={**request.headers, RANK_HEADER: number}) if number else request


def ask_one_token(launch: EngineLaunch, nonce: str, *, chat: bool = False) -> Request:
    """The canary of an OpenAI-compatible server, fitting the model's task."""
    named: dict[str, Any] = {} if launch.served_model is None else {"model": launch.served_model}
    words = f"{nonce} {TAG}"
    if launch.task is Task.EMBED:
        return Request("/v1/embeddings", "POST", {**named, "input": words})
    if launch.task is Task.RERANK:
        return Request("/v1/rerank", "POST", {**named, "query": words, "documents": [words]})
    one = {**named, "max_tokens": 1, "temperature": 0, "stream": False, "user": TAG}
    if chat:
        return Request("/v1/chat/completions", "POST", {**one, "messages": [{"role": "user", "content": words}]})
    return Request("/v1/completions", "POST", {**one, "prompt": words})


def has_token(status: int, text: str) -> bool:
    """The answer to a canary carries what only the scheduler can give: a counted token, a vector or a score, or the
    model's own wish to say nothing.

    A dead vLLM ends its streams with an error event and `[DONE]` under HTTP 200, so the status proves nothing.
    """
    if status != 200:
        return False
    try:
        answer = read_json(text, "the canary's answer")
    except AgentError:
        return False
    if isinstance(answer, list):  # SGLang's scores come without a word around them
        return any(isinstance(entry, dict) and ("score" in entry or "relevance_score" in entry) for entry in answer)
    if not isinstance(answer, dict) or answer.get("error"):
        return False
    return made_tokens(answer) or bool(answer.get("data")) or bool(answer.get("results"))


def made_tokens(answer: Mapping[str, Any]) -> bool:
    """`usage` counts a completion token, or (servers that leave `usage` out) a choice carries some text.

    A model whose first token ends its answer gives `stop`, no text, and with some servers a count of 0.
    """
    choices = answer.get("choices")
    told = choices if isinstance(choices, list) else []
    if any(isinstance(choice, dict) and choice.get("finish_reason") == "stop" for choice in told):
        return True
    usage = answer.get("usage")
    if isinstance(usage, dict) and isinstance(usage.get("completion_tokens"), int | float):
        return bool(usage["completion_tokens"] > 0)
    return any(says_something(choice) for choice in told)


def says_something(choice: Any) -> bool:
    """One choice holds text: a completion's, or a chat message's content or reasoning."""
    if not isinstance(choice, dict):
        return False
    message = choice.get("message")
    spoken = message.values() if isinstance(message, dict) else ()
    texts = [choice.get("text"), *spoken]
    return any(isinstance(text, str) and text not in ("", "assistant") for text in texts)
