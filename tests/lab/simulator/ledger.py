"""How steps become metrics: SchedulerStats of every step, IterationStats only for sequences that the frontend knows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from .metrics import EngineMetrics
from .sequences import Output
from .stats import Tally


class EngineDead(Exception):
    """An engine core is gone; the message is what clients read."""


class Collector:
    """Outputs on their way to a client. What it has not taken yet becomes one: a slow reader costs no memory."""

    def __init__(self) -> None:
        self._waiting: Output | None = None
        self._dead: EngineDead | None = None
        self._there = asyncio.Event()

    def put(self, output: Output) -> None:
        """Add an output to what waits."""
        if self._waiting is not None:
            output = replace(output, tokens=self._waiting.tokens + output.tokens)
        self._waiting = output
        self._there.set()

    def die(self, dead: EngineDead) -> None:
        """There will be no more."""
        self._dead = dead
        self._there.set()

    async def take(self) -> Output:
        """What has come since the last call, at least one output. Raises EngineDead."""
        await self._there.wait()
        self._there.clear()
        if self._waiting is not None:
            output, self._waiting = self._waiting, None
            if self._dead is not None:
                self._there.set()
            return output
        raise self._dead or EngineDead("no output")


@dataclass(slots=True, eq=False)
class Sequence:
    """What the frontend knows of one sequence that it handed to an engine core; `client` is False for a zombie."""

    id: str
    rank: int
    prompt: int
    max_tokens: int
    n: int
    arrived: float
    outputs: Collector = field(default_factory=Collector)
    first_at: float = 0.0
    last_at: float = 0.0
    tokens: int = 0
    client: bool = True
    streamed: bool = False


class Books(Protocol):
    """Where an engine's server books what its cores report."""

    forgetful: bool
    """Whether the frontend forgets a client that hung up even when nobody tells the scheduler."""

    def step(self, rank: int, stats: dict[str, Any]) -> None:
        """What comes with every step."""

    def gauges(self, rank: int, gauges: dict[str, Any]) -> None:
        """The scheduler's state after the steps."""

    def output(self, sequence: Sequence, output: Output) -> None:
        """New tokens of a sequence that the frontend knows."""

    def stray(self, output: Output) -> None:
        """New tokens of one that it does not know."""

    def aborted(self, sequence: Sequence) -> None:
        """The scheduler aborted a sequence."""

    def left(self, sequence: Sequence) -> None:
        """A client hung up, and its sequence is given up."""

    def anew(self) -> None:
        """Every counter begins at nothing."""


class Ledger:
    """Books what the cores report."""

    forgetful = False

    def __init__(self, metrics: EngineMetrics, tally: Tally) -> None:
        self.metrics = metrics
        self.tally = tally

    def step(self, rank: int, stats: dict[str, Any]) -> None:
        """What comes with every step, be there outputs or not."""
        self.metrics.step(rank, stats)
        self.tally.step(rank, stats)
        for tokens in stats["iterations"]:
            self.metrics.observe("iteration_tokens_total", rank, tokens)

    def gauges(self, rank: int, gauges: dict[str, Any]) -> None:
        """They are as fresh as the last step."""
        self.metrics.gauges(rank, gauges["running"], gauges["waiting"], gauges["usage"])

    def output(self, sequence: Sequence, output: Output) -> None:
        """New tokens of a sequence; the whole prompt is counted with the first."""
        rank = sequence.rank
        if output.first:
            sequence.first_at = output.at
            self.metrics.prompt(rank, sequence.prompt, output.cached)
            self.tally.prompt(rank, sequence.prompt)
            self.metrics.observe("time_to_first_token_seconds", rank, output.at - sequence.arrived)
        else:
            self.metrics.observe("inter_token_latency_seconds", rank, output.at - sequence.last_at)
        self.metrics.count("generation_tokens", rank, output.tokens)
        self.tally.generated(rank, output.tokens)
        sequence.last_at = output.at
        sequence.tokens += output.tokens
        if output.reason:
            self._finished(sequence, output)

    def stray(self, output: Output) -> None:
        """Outputs of aborted requests are ignored."""

    def aborted(self, sequence: Sequence) -> None:
        """The scheduler said that it aborted this one; a client that hung up is never booked."""
        self.metrics.count("request_success", sequence.rank, finished_reason="abort")

    def left(self, sequence: Sequence) -> None:
        """A client that hung up leaves no trace."""

    def anew(self) -> None:
        """Counters and histograms; gauges stay."""
        for family in self.metrics.families.values():
            family.anew()

    def _finished(self, sequence: Sequence, output: Output) -> None:
        decode = sequence.last_at - sequence.first_at
        spans = {
            "e2e_request_latency_seconds": output.at - sequence.arrived,
            "request_queue_time_seconds": max(0.0, output.scheduled - sequence.arrived),
            "request_inference_time_seconds": output.at - output.scheduled,
            "request_prefill_time_seconds": sequence.first_at - output.scheduled,
            "request_decode_time_seconds": decode,
            "request_time_per_output_token_seconds": decode / max(1, sequence.tokens - 1),
            "request_prompt_tokens": sequence.prompt,
            "request_generation_tokens": sequence.tokens,
            "request_max_num_generation_tokens": sequence.tokens,
            "request_params_n": sequence.n,
            "request_params_max_tokens": sequence.max_tokens,
            "request_num_preemptions": output.preemptions,
            "request_prefill_kv_computed_tokens": sequence.prompt - output.cached,
        }
        for name, value in spans.items():
            self.metrics.observe(name, sequence.rank, value)
        self.metrics.count("request_success", sequence.rank, finished_reason=output.reason)
