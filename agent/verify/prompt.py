"""Wholly new text of a wanted length: a prefix cache by block hashes defeats a nonce at the head (pure)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

SYLLABLES = tuple(consonant + vowel for consonant in "bdfghklmnprstvwz" for vowel in "aeiou")
STYLES = (
    "Continue this list of invented words, one a line, and do not stop:",
    "Write a long story in which each of these invented names appears:",
    "def sort_of(values):\n    # explain every step of this function at length\n    words =",
    "Answer in many sentences: which of these invented words sounds kindest, and why?",
)
"""Mixed prompts: speculative decoding is quicker on some kinds of text than on others."""
TOKENS_A_WORD = 4.0
"""More than tokenizers make of such words: where nobody counts, a prompt is too short rather than refused."""
ROUNDS = 5
CLOSE = 0.01

Count = Callable[[str], Awaitable[int | None]]
"""Tokens of a text by the engine's own tokenizer; None where it offers none."""


def words(random: Random, count: int) -> str:
    """So many words that no cache has seen."""
    return " ".join("".join(random.choices(SYLLABLES, k=random.randint(2, 4))) for _ in range(count))


async def prompt(tokens: int, seed: str, count: Count) -> str:
    """A prompt of at most `tokens` tokens (at most a hundredth less where the engine counts), new for every `seed`."""
    random = Random(seed)  # noqa: S311 - text, no secret
    style = random.choice(STYLES)
    rate, number, text = TOKENS_A_WORD, 0, style
    for _ in range(ROUNDS):
        number = max(1, round(tokens / rate))
        text = f"{words(Random(f'{seed}/{number}'), number)}\n{style}"  # noqa: S311
        found = await count(text)
        if found is None or tokens - max(4, CLOSE * tokens) <= found <= tokens:
            break
        # a little below, so that the next one is not above again: the context has no room for one token more
        rate = rate * found / tokens * (1 + CLOSE / 4)
    return text
