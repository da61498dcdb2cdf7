"""One streamed answer of an OpenAI-compatible engine, read line by line (pure): what is no answer to what was asked
has an error and no number."""

from __future__ import annotations

import json
from typing import Any

from agent.verify.trace import Trace

SLACK_PIECES = 16
"""Pieces beyond the tokens that were asked for until a stream counts as one that does not end."""
MOST_TOLD = 200
NO_COUNT = "it says neither how many tokens it made nor that it made all that were asked for"
BROKEN_OFF = "the answer broke off before its end"
CUT = frozenset({"abort", "error", "content_filter"})
"""Reasons of an end that is none of the answer's own (vLLM and SGLang: `abort`)."""
ENDLESS = "it sends more than the {asked} tokens that were asked for"


class Collected:
    """What came of one stream so far. `asked`: the most tokens that it was asked for, None where nobody limited it."""

    def __init__(self, sent: float, asked: int | None = None) -> None:
        self.sent = sent
        self.asked = asked
        self.times: list[float] = []
        self.weights: list[float] = []
        self.spoken = 0
        """Pieces with text."""
        self.tokens: int | None = None
        self.prompt_tokens: int | None = None
        self.cached = 0
        self.finish = ""
        self.done = False
        self.error = ""

    @property
    def over(self) -> bool:
        """Nothing that comes now is of interest; a server may keep the connection all the same."""
        return self.done or bool(self.error)

    def add(self, line: bytes, at: float) -> None:
        """One line of the stream, read at `at`. Raises ValueError or RecursionError for what is no JSON."""
        if not line.startswith(b"data:"):
            return
        data = line[5:].strip()
        if data == b"[DONE]":
            self.done = True
            return
        event: Any = json.loads(data) if data else None
        if not isinstance(event, dict):
            return
        if failure := failed(event):
            self.error = failure
            return
        self._count(event.get("usage"))
        choices = event.get("choices")
        if isinstance(choices, list):
            self._piece([choice for choice in choices if isinstance(choice, dict)], at)

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self.tokens = whole(usage.get("completion_tokens"), self.tokens)
            self.prompt_tokens = whole(usage.get("prompt_tokens"), self.prompt_tokens)
            details = usage.get("prompt_tokens_details")
            self.cached = whole(details.get("cached_tokens"), 0) or 0 if isinstance(details, dict) else self.cached

    def _piece(self, choices: list[dict[str, Any]], at: float) -> None:
        """A first piece has text: servers greet before the prefill. Later ones may be silent and are tokens still: an
        engine that was told to ignore the end goes on with special tokens, of which no text is shown."""
        if not choices:
            return
        letters = sum(map(said, choices))
        reason = next((str(found) for choice in choices if (found := choice.get("finish_reason"))), "")
        if letters or self.times:
            self.times.append(at)
            # a last piece without text is the time of the end; whether it is a token, nobody says
            self.weights.append(float(letters) if letters or reason else 1.0)
        self.spoken += letters > 0
        self.finish = self.finish or reason
        if reason in CUT:
            self.error = f"the engine ended the answer itself: {reason}"
        if self.asked is not None and len(self.times) > self.asked + SLACK_PIECES:
            self.error = ENDLESS.format(asked=self.asked)

    def trace(self) -> Trace:
        """What it came to."""
        tokens = self.tokens
        if tokens is None and self.finish == "length":
            tokens = self.asked
        error = self.error or self._doubt(tokens)
        times, weights = tuple(self.times), tuple(self.weights)
        return Trace(self.sent, times, tokens or 0, self.prompt_tokens, error, weights, self.cached)

    def _doubt(self, tokens: int | None) -> str:
        """Why this is no measurement; a count that cannot be true is worse than none."""
        if not self.spoken:
            return "no token came"
        if not (self.done or self.finish):
            return BROKEN_OFF
        if tokens is None:
            return NO_COUNT
        if tokens < self.spoken - 1:
            return f"it counts {tokens} tokens, and sent {self.spoken} pieces of text"
        if self.asked is not None and tokens > self.asked:
            return f"it counts {tokens:.6g} tokens where {self.asked} were asked for"
        return ""


def failed(event: dict[str, Any]) -> str:
    """What an event says that went wrong: `error` as OpenAI has it, or `object: error` of older engines."""
    if event.get("error"):
        return str(event["error"])[:MOST_TOLD]
    return str(event.get("message") or "error")[:MOST_TOLD] if event.get("object") == "error" else ""


MOST_TOKENS = 1 << 40


def whole(count: Any, else_: int | None) -> int | None:
    """A count of tokens, else what was known before."""
    right = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MOST_TOKENS
    return count if right else else_


def said(choice: dict[str, Any]) -> int:
    """Letters that a choice of an event carries: a completion's, or a chat's content or reasoning."""
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        delta = {}
    texts = (choice.get("text"), delta.get("content"), delta.get("reasoning_content") or delta.get("reasoning"))
    return sum(len(text) for text in texts if isinstance(text, str))
