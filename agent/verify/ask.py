"""The requests of a measurement, and how the tokenizer's answer reads (pure)."""

from __future__ import annotations

import json
from typing import Any

from agent.engines.model import EngineLaunch, Request


def completion(engine: EngineLaunch, text: str, max_tokens: int) -> Request:
    """Temperature 0, streamed, to the last token asked for."""
    body = {"prompt": text, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    return Request("/v1/completions", "POST", {**named(engine), **body, "stream_options": {"include_usage": True}})


def tokenize(engine: EngineLaunch, text: str) -> Request:
    """vLLM, SGLang: `prompt` → `count`; llama.cpp: `content` → `tokens`."""
    return Request("/tokenize", "POST", {**named(engine), "prompt": text, "content": text})


def named(engine: EngineLaunch) -> dict[str, Any]:
    return {} if engine.served_model is None else {"model": engine.served_model}


def tokens_in(text: str) -> int | None:
    """The count in a tokenizer's answer; None where it has none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    count, tokens = found.get("count"), found.get("tokens")
    if isinstance(count, int) and not isinstance(count, bool):
        return count
    return len(tokens) if isinstance(tokens, list) else None
