"""Prompts of a wanted length, by the engine's own tokenizer or, without one, by what it says of prompts it was sent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from agent.engines.model import EngineLaunch
from agent.samples.model import Missed
from agent.samples.port import Endpoint, Probe
from agent.verify.ask import completion, tokenize, tokens_in
from agent.verify.port import Streams
from agent.verify.prompt import STYLES, Prompt, Scale, plausible, prompt, written

TOKENIZER_S = 30.0
SLOW_S = 5.0
"""A tokenizer that takes longer is not asked again: hundreds of prompts are counted in a verification."""
TRIAL_WORDS = (16, 272)
TRIAL_S = 120.0


@dataclass(slots=True)
class Ruler:
    """Its `scale` is what was learned so far; `seed` and the number of a prompt make its text again."""

    probe: Probe
    streams: Streams
    endpoint: Endpoint
    engine: EngineLaunch
    seed: str
    scale: Scale = field(default_factory=Scale)
    counts: bool = True
    """The tokenizer still answers."""
    made: int = 0

    async def prompt(self, tokens: int) -> Prompt:
        found = await prompt(tokens, self.next_seed(), self.count, self.scale, aside)
        if self.counts:
            self.scale = found.scale
        return found

    def next_seed(self) -> str:
        self.made += 1
        return f"{self.seed}/{self.made}"

    async def count(self, text: str) -> int | None:
        if not self.counts:
            return None
        answer = await self.probe.ask(self.endpoint, tokenize(self.engine, text), TOKENIZER_S)
        found = None if isinstance(answer, Missed) or answer.status != 200 else tokens_in(answer.text)
        found = plausible(text, found)
        if found is None or isinstance(answer, Missed) or answer.seconds > SLOW_S:
            self.counts, self.scale = False, replace(self.scale, known=self.made > 1)
        return found

    async def learn(self) -> None:
        """Where there is no tokenizer: two prompts of a known number of words, and what the engine says they cost."""
        if await self.count(written(self.next_seed(), TRIAL_WORDS[0], "")) is not None:
            return
        few, many = [await self._cost(number) for number in TRIAL_WORDS]
        if few is not None and many is not None and many > few:
            a_word = (many - few) / (TRIAL_WORDS[1] - TRIAL_WORDS[0])
            self.scale = Scale(a_word, few - a_word * TRIAL_WORDS[0], known=True)

    async def _cost(self, number: int) -> int | None:
        text = written(self.next_seed(), number, max(STYLES, key=len))
        trace = await self.streams.trace(self.endpoint, completion(self.engine, text, 1), TRIAL_S)
        return plausible(text, trace.prompt_tokens)  # counted, even where the one token of the answer shows no text


async def aside(seed: str, number: int, style: str) -> str:
    """A prompt of a million tokens takes a second to write, which nobody else shall wait for."""
    return await asyncio.to_thread(written, seed, number, style)
