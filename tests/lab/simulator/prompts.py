"""Prompts as token counts and block hashes: no tokenizer, a token is each begun four characters of a word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(r"\S{1,4}")
_WORDS = (" and", " the", " of", " a", " model", " reads", " every", " word", " once", " more")


class BadPrompt(ValueError):
    """The body has no prompt that can be served; the message is the API's."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """How long a prompt is, and one hash per full block; the hash of a block covers all before it."""

    tokens: int
    hashes: tuple[int, ...] = ()


def tokenize(text: str) -> list[str]:
    """The pieces of a text that count as tokens."""
    return _TOKEN.findall(text)


def from_pieces(pieces: Sequence[Any], block: int) -> Prompt:
    """A prompt of tokens, be they words or numbers."""
    hashes: list[int] = []
    before = 0
    for start in range(0, len(pieces) - block + 1, block):
        before = hash((before, tuple(pieces[start : start + block]))) & 0x7FFFFFFF_FFFFFFFF
        hashes.append(before)
    return Prompt(len(pieces), tuple(hashes))


def of_size(tokens: int, key: str, block: int) -> Prompt:
    """A prompt that is only a size. With a key, prompts of one key share their prefix; without, nothing is shared."""
    if not key:
        return Prompt(tokens)
    return Prompt(tokens, tuple(hash((key, place)) & 0x7FFFFFFF_FFFFFFFF for place in range(tokens // block)))


def of_completion(body: dict[str, Any], block: int) -> list[Prompt]:
    """The prompts of /v1/completions: a text, token numbers, or a list of either. Raises BadPrompt."""
    if "sim_prompt_tokens" in body:
        return [of_size(int(body["sim_prompt_tokens"]), str(body.get("sim_prompt_key", "")), block)]
    prompt = body.get("prompt")
    if not prompt:
        raise BadPrompt("Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)")
    if isinstance(prompt, str):
        return [from_pieces(tokenize(prompt) or [prompt], block)]
    if isinstance(prompt, list) and all(isinstance(part, int) for part in prompt):
        return [from_pieces(prompt, block)]
    if isinstance(prompt, list) and all(isinstance(part, str | list) for part in prompt):
        return [from_pieces(tokenize(part) if isinstance(part, str) else part, block) for part in prompt]
    raise BadPrompt("prompt must be a string, a list of token ids, or a list of either (parameter=prompt)")


def of_chat(body: dict[str, Any], block: int) -> Prompt:
    """The prompt of /v1/chat/completions: the texts, four tokens of template around each. Raises BadPrompt."""
    if "sim_prompt_tokens" in body:
        return of_size(int(body["sim_prompt_tokens"]), str(body.get("sim_prompt_key", "")), block)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadPrompt("messages must be a non-empty list (parameter=messages)")
    pieces: list[str] = []
    for message in messages:
        pieces += ["<s>", str(message.get("role", "")), *tokenize(_text(message.get("content"))), "</s>", "\n"]
    return from_pieces(pieces, block)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def words(start: int, count: int) -> str:
    """Text of generated tokens: one word each, the same for the same place."""
    return "".join(_WORDS[place % len(_WORDS)] for place in range(start, start + count))
