"""What the scheduler works on and what it tells: a request, the rates, a step, and the report of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Pause = Literal["", "abort", "wait", "keep"]


@dataclass(slots=True, eq=False)
class Request:
    """One sequence. `computed` tokens have their KV; the rest of prompt and generated ones has not."""

    id: str
    prompt: int
    max_tokens: int
    hashes: Sequence[int] = ()
    stops_at: int | None = None
    arrived: float = 0.0
    scheduled: float = 0.0
    computed: int = 0
    generated: int = 0
    cached: int = 0
    private: int = 0
    shared: list[int] = field(default_factory=list)
    preemptions: int = 0
    held: bool = False
    slot: int = -1
    """The place it has while it runs, the lowest that was free; the scheduler gives it."""
    task: int = 0
    """The how-many-th request it is."""

    @property
    def missing(self) -> int:
        """Tokens whose KV the next steps must compute."""
        return self.prompt + self.generated - self.computed

    @property
    def decoding(self) -> bool:
        """The next step yields tokens and needs no more of the prompt."""
        return self.generated > 0 and self.missing == 1

    @property
    def limit(self) -> int:
        """How many tokens it generates at most."""
        return min(self.max_tokens, self.stops_at or self.max_tokens)


@dataclass(frozen=True, slots=True)
class Crowd:
    """Requests that run, and those that have begun to since the last time one asked; one may have ended already."""

    running: Sequence[Request]
    begun: Sequence[Request]


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast steps are, in tokens and engine seconds, and what bounds them."""

    prefill_tok_s: float
    decode_tok_s: float
    batch_cost: float
    batch_tokens: int
    max_running: int
    block_size: int
    spec_tokens: int = 0
    spec_accept: float = 0.0
    flops_per_token: float = 0.0


@dataclass(slots=True)
class Output:
    """New tokens of one request in one step; `reason` says that it has ended."""

    id: str
    tokens: int
    reason: str
    first: bool
    at: float
    scheduled: float
    cached: int
    preemptions: int


@dataclass(slots=True)
class Report:
    """What some steps have to tell. The counts are increments; gauges are read from the scheduler when it is sent."""

    steps: int = 0
    prefills: int = 0
    prefill_tokens: int = 0
    decodes: int = 0
    outputs: list[Output] = field(default_factory=list)
    iterations: list[int] = field(default_factory=list)
    queries: int = 0
    hits: int = 0
    preempted: int = 0
    drafts: int = 0
    accepted: list[int] = field(default_factory=list)
    flops: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """Work of one pass through the model: tokens per request, and how long it takes."""

    work: tuple[tuple[Request, int], ...]
    seconds: float
