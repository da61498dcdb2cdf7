"""The API key that a launch gives its engine, as its words say it (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FLAG = "--api-key"
VARIABLES = ("VLLM_API_KEY", "LLAMA_API_KEY", "SGLANG_API_KEY")
"""vLLM and llama.cpp read theirs when the flag is not given."""


def api_key_of(body: Mapping[str, Any]) -> str | None:
    """The key, or the reference `secret:NAME` that a plan has in its place; None where the launch names none."""
    words = [*(body.get("Entrypoint") or ()), *(body.get("Cmd") or ())]
    return of_flag(words) or of_variable(body.get("Env") or ())


def of_flag(words: Sequence[str]) -> str | None:
    for number, word in enumerate(words):
        if word == FLAG and number + 1 < len(words):
            return words[number + 1]
        if word.startswith(f"{FLAG}="):
            return word.partition("=")[2]
    return None


def of_variable(env: Sequence[str]) -> str | None:
    given = dict(entry.split("=", 1) for entry in env if "=" in entry)
    return next((given[name] for name in VARIABLES if given.get(name)), None)
