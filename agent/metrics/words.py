"""The words for a deployment's figures and for what cannot be seen of it: one set for terminal and page."""

from __future__ import annotations

WORDS = {
    "requests_running": "requests running",
    "requests_waiting": "requests waiting",
    "client_connections": "client connections",
    "zombie_requests": "zombie requests",
    "zombie_kv_tokens": "KV tokens of zombies",
    "prompt_tokens": "prompt tokens, since its start",
    "generation_tokens": "generation tokens, since its start",
    "kv_cache_usage_ratio": "KV cache in use",
    "decode_tokens_per_second": "tokens a second",
    "startup_left_seconds": "start-up left, about",
    "spec_decode_acceptance_ratio": "drafts accepted",
}
"""Figure → its words; another one is told by its name."""
BLIND = {
    "metrics": "its metrics",
    "step_counter": "single steps (it counts tokens, and a prefill shows none until its end)",
    "kv_usage": "how full the KV cache is",
    "process_start": "when its process began",
    "connections": "its clients' connections",
    "log": "its log",
}
"""Signal → what is not known without it."""


def words(figure: str) -> str:
    return WORDS.get(figure, figure.replace("_", " "))


def heading(figure: str) -> str:
    """The same, as the first words of a line on the page."""
    told = words(figure)
    return told[:1].upper() + told[1:]


def unseen(signal: str) -> str:
    return BLIND.get(signal, signal.replace("_", " "))
