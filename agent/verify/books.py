"""What an engine counts beside a measurement: whether others were served (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent import quantity
from agent.engines.model import EngineReading
from agent.verify.trace import Trace

SLACK_TOKENS, SLACK = 32, 0.02
"""What may be counted beyond the answers: marks at the beginning of prompts, the agent's own question of one token."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One look, over all ranks: requests in the engine, and tokens read and made since its start; None: not told."""

    work: float | None = None
    read: float | None = None
    made: float | None = None


def seen(reading: EngineReading) -> Seen:
    ranks = reading.apart
    work = [rank.work for rank in ranks if rank.work is not None]
    return Seen(
        sum(work) if work else None,
        total([rank.prompt_tokens for rank in ranks]),
        total([rank.generation_tokens for rank in ranks]),
    )


def total(counts: Sequence[float | None]) -> float | None:
    """Of all ranks; one that is not known leaves the sum unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def own(traces: Sequence[Trace], prompt_tokens: int) -> Seen:
    """What these requests cost; `prompt_tokens` where an answer does not say how long its prompt was."""
    read = sum(trace.prompt_tokens or prompt_tokens for trace in traces)
    return Seen(0, read, sum(trace.tokens for trace in traces))


def settled(before: Seen, now: Seen, spent: Seen) -> bool:
    """Whether the counters hold these requests; some engines count a request when it has ended, and a little later."""
    pairs = list(counted(before, now, spent).values())
    return not now.work and all(found >= meant * (1 - SLACK) for found, meant in pairs)


def others(before: Seen, now: Seen, spent: Seen) -> str:
    """Why it is not true that these requests were alone; empty where nothing says so."""
    if now.work:
        return f"{quantity.counted(now.work, 'request')} ran on when the measured ones had ended"
    for what, (found, meant) in counted(before, now, spent).items():
        if found < 0:
            return "the engine's counters began anew"
        if found > meant * (1 + SLACK) + SLACK_TOKENS:
            return f"the engine counted {found:,.0f} tokens {what}, and the answers say {meant:,.0f}"
    return ""


def counted(before: Seen, now: Seen, spent: Seen) -> dict[str, tuple[float, float]]:
    """What the engine counted and what the answers say, of each counter that there is."""
    lines = {"read": (before.read, now.read, spent.read), "made": (before.made, now.made, spent.made)}
    return {
        what: (later - earlier, meant)
        for what, (earlier, later, meant) in lines.items()
        if earlier is not None and later is not None and meant is not None
    }
