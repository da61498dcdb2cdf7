"""The periodic line of the API server: throughputs of the last interval, gauges as they stand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .clock import Clock
from .log import Log
from .metrics import EngineMetrics


@dataclass(slots=True)
class _Window:
    prompt: int = 0
    generated: int = 0
    drafts: int = 0
    accepted: list[int] = field(default_factory=list)
    before: tuple[float, float] = (0.0, 0.0)
    preempted: int = 0
    queries: int = 0
    hits: int = 0


class Tally:
    """Counts between two lines. A rank's line is written while this interval or the one before had tokens."""

    def __init__(self, metrics: EngineMetrics, ranks: int) -> None:
        self.metrics = metrics
        self.windows = [_Window() for _ in range(ranks)]

    def step(self, rank: int, report: Mapping[str, Any]) -> None:
        """SchedulerStats of some steps."""
        window = self.windows[rank]
        window.drafts += report["drafts"]
        window.accepted += report["accepted"]
        window.preempted += report["preempted"]
        window.queries += report["queries"]
        window.hits += report["hits"]

    def prompt(self, rank: int, tokens: int) -> None:
        """A prompt was completed."""
        self.windows[rank].prompt += tokens

    def generated(self, rank: int, tokens: int) -> None:
        """Tokens came out."""
        self.windows[rank].generated += tokens

    def lines(self, rank: int, seconds: float) -> list[tuple[str, str]]:
        """Source and text of the lines that are due for `seconds`; the window begins anew."""
        window = self.windows[rank]
        pace = (window.prompt / seconds, window.generated / seconds)
        due = any(pace) or any(window.before)
        made = [("loggers.py:335", self._line(rank, window, pace))] if due else []
        if due and window.drafts:
            made.append(("metrics.py:101", self._drafts(window, seconds)))
        self.windows[rank] = _Window(before=pace, queries=window.queries, hits=window.hits)
        return made

    def _line(self, rank: int, window: _Window, pace: tuple[float, float]) -> str:
        gauge = self.metrics.gauge
        hits = 100 * window.hits / window.queries if window.queries else 0.0
        return (
            f"Engine {rank:03d}: Avg prompt throughput: {pace[0]:.1f} tokens/s, "
            f"Avg generation throughput: {pace[1]:.1f} tokens/s, "
            f"Running: {gauge('num_requests_running', rank):.0f} reqs, "
            f"Waiting: {gauge('num_requests_waiting', rank):.0f} reqs, "
            + (f"Preemptions: {window.preempted}, " if window.preempted else "")
            + f"GPU KV cache usage: {100 * gauge('kv_cache_usage_perc', rank):.1f}%, "
            f"Prefix cache hit rate: {hits:.1f}%"
        )

    def _drafts(self, window: _Window, seconds: float) -> str:
        accepted, drafted = sum(window.accepted), window.drafts * self.metrics.spec_tokens
        rates = [
            sum(1 for count in window.accepted if count > place) / window.drafts
            for place in range(self.metrics.spec_tokens)
        ]
        return (
            f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / window.drafts:.2f}, "
            f"Accepted throughput: {accepted / seconds:.2f} tokens/s, Drafted throughput: {drafted / seconds:.2f} "
            f"tokens/s, Accepted: {accepted} tokens, Drafted: {drafted} tokens, Per-position acceptance rate: "
            f"{', '.join(f'{rate:.3f}' for rate in rates)}, Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%"
        )


async def log_forever(tally: Tally, clock: Clock, interval: float, log: Log) -> None:
    """Write the lines every `interval` engine seconds."""
    last = clock.now()
    while True:
        await asyncio.sleep(clock.real(interval))
        now = clock.now()
        for rank in range(len(tally.windows)):
            for source, line in tally.lines(rank, now - last):
                log.note(source, line)
        last = now
