"""Wholly new text of a wanted length: a prefix cache by block hashes defeats a nonce at the head (pure)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
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
LETTERS_A_TOKEN = 16
"""Twice the longest of the invented words: no tokenizer has a token for more of them."""
EXTRA_TOKENS = 16
"""Beginning and end marks that a tokenizer adds."""
GUESS = 0.96
"""Of the wanted length where only the pace of tokens a word is known: a prompt must not be longer than the context."""

Count = Callable[[str], Awaitable[int | None]]
"""Tokens of a text by the engine's own tokenizer; None where it offers none."""
Write = Callable[[str, int, str], Awaitable[str]]
"""Runs `written` where a long text keeps nobody waiting."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Tokens that a text of so many words has: `beside` and `a_word` for each."""

    a_word: float = TOKENS_A_WORD
    beside: float = 0.0
    known: bool = False

    def words_for(self, tokens: int) -> int:
        aim = GUESS * tokens if self.known else tokens
        return max(1, round((aim - self.beside) / self.a_word))


@dataclass(frozen=True, slots=True)
class Prompt:
    """`tokens` as the engine's tokenizer counts them, None where nobody counted."""

    text: str
    tokens: int | None
    scale: Scale


def words(random: Random, count: int) -> str:
    """So many words that no cache has seen."""
    return " ".join("".join(random.choices(SYLLABLES, k=random.randint(2, 4))) for _ in range(count))


def written(seed: str, number: int, style: str) -> str:
    """So many new words and what to do with them; the same for the same seed."""
    return f"{words(Random(f'{seed}/{number}'), number)}\n{style}"  # noqa: S311 - text, no secret


async def here(seed: str, number: int, style: str) -> str:
    return written(seed, number, style)


async def prompt(
    tokens: int,
    seed: str,
    count: Count,
    scale: Scale = Scale(),
    write: Write = here,
) -> Prompt:
    """A prompt of at most `tokens` tokens (at most a hundredth less where the engine counts), new for every `seed`."""
    style = Random(seed).choice(STYLES)  # noqa: S311
    text, found = style, None
    for _ in range(ROUNDS):
        number = scale.words_for(tokens)
        text = await write(seed, number, style)
        found = plausible(text, await count(text))
        if found is None or tokens - max(4, CLOSE * tokens) <= found <= tokens:
            break
        # a little below, so that the next one is not above again: the context has no room for one token more
        scale = Scale(found / number * (1 + CLOSE / 4))
    return Prompt(text, found, scale)


def plausible(text: str, found: int | None) -> int | None:
    """A count that such a text can have; a tokenizer that says otherwise counts something else."""
    if found is None or not len(text) / LETTERS_A_TOKEN <= found <= len(text.encode()) + EXTRA_TOKENS:
        return None
    return found
