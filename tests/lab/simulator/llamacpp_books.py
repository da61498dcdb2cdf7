"""llama.cpp's metrics: decode calls move with every step, tokens only when a slot is released."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .ledger import Sequence
from .sequences import Output


@dataclass(slots=True)
class Pace:
    """Tokens and seconds since the last scrape."""

    tokens: int = 0
    seconds: float = 0.0

    def take(self) -> float:
        """Tokens a second, and anew from here: whoever scrapes takes it from the others."""
        pace = self.tokens / self.seconds if self.seconds else 0.0
        self.tokens, self.seconds = 0, 0.0
        return pace


class LlamaBooks:
    """What `/metrics` tells; there are no labels and no ranks."""

    forgetful = False

    def __init__(self, draft_tokens: int) -> None:
        self.draft_tokens = draft_tokens
        self._last_running = 0
        self._steps = 0
        self.anew()

    def anew(self) -> None:
        """Every counter at nothing."""
        self.prompt, self.prompt_cached, self.prompt_s = 0, 0, 0.0
        self.predicted, self.predicted_s = 0, 0.0
        self.decodes, self.busy, self.longest = 0, 0, 0
        self.drafts, self.drafted, self.accepted = 0, 0, 0
        self.prompt_pace, self.predicted_pace = Pace(), Pace()

    def step(self, rank: int, stats: dict[str, Any]) -> None:
        """Every call of llama_decode, those of a prefill too."""
        self.decodes += stats["steps"]
        self._steps = stats["steps"]
        self.drafts += stats["drafts"]
        self.drafted += stats["drafts"] * self.draft_tokens
        self.accepted += sum(stats["accepted"])

    def gauges(self, rank: int, gauges: dict[str, Any]) -> None:
        """Slots that were in these calls: those that run, and those that have ended in the last."""
        running = int(gauges["running"])
        self.busy += self._steps * max(running, self._last_running, 1)
        self._last_running = running
        self.longest = max(self.longest, int(gauges["longest"]))

    def output(self, sequence: Sequence, output: Output) -> None:
        """The prompt counts with the first token, the answer at its end."""
        if output.first:
            sequence.first_at = output.at
            new, seconds = sequence.prompt - output.cached, output.at - output.scheduled
            self.prompt += new
            self.prompt_cached += output.cached
            self.prompt_s += seconds
            self.prompt_pace.tokens += new
            self.prompt_pace.seconds += seconds
        sequence.last_at = output.at
        sequence.tokens += output.tokens
        self.longest = max(self.longest, sequence.prompt + sequence.tokens - 1)
        if output.reason:
            self.left(sequence)

    def left(self, sequence: Sequence) -> None:
        """The slot is released, whoever asked for it."""
        seconds = max(0.0, sequence.last_at - sequence.first_at)
        self.predicted += sequence.tokens
        self.predicted_s += seconds
        self.predicted_pace.tokens += sequence.tokens
        self.predicted_pace.seconds += seconds

    def stray(self, output: Output) -> None:
        """Nobody waits for it."""

    def aborted(self, sequence: Sequence) -> None:
        """There is nothing to abort with."""

    def render(self, processing: int, deferred: int) -> str:
        """The text, and new averages from here."""
        return "".join(self._lines(processing, deferred))

    def _lines(self, processing: int, deferred: int) -> Iterator[str]:
        busy = self.busy / self.decodes if self.decodes else 0.0
        for name, kind, text, value in (
            ("prompt_tokens_total", "counter", "Number of prompt tokens processed, excluding cached tokens",
             self.prompt),
            ("prompt_tokens_cached_total", "counter", "Number of prompt tokens reused from the cache",
             self.prompt_cached),
            ("prompt_seconds_total", "counter", "Total time spent processing prompts", self.prompt_s),
            ("tokens_predicted_total", "counter", "Number of generation tokens processed", self.predicted),
            ("tokens_predicted_seconds_total", "counter", "Total time spent generating tokens", self.predicted_s),
            ("n_decode_total", "counter", "Total number of llama_decode() calls, excluding speculative decoding and "
             "multimodal decoding", self.decodes),
            ("n_tokens_max", "counter", "Largest observed sequence length (prompt + generation)", self.longest),
            ("spec_decode_num_draft_tokens_total", "counter", "Speculative: Total draft tokens generated",
             self.drafted),
            ("spec_decode_num_accepted_tokens_total", "counter", "Speculative: Total draft tokens accepted by the "
             "target model", self.accepted),
            ("spec_decode_num_drafts_total", "counter", "Speculative: Total speculative decoding verification steps",
             self.drafts),
            ("prompt_tokens_seconds", "gauge", "Average prompt throughput in tokens/s", self.prompt_pace.take()),
            ("predicted_tokens_seconds", "gauge", "Average generation throughput in tokens/s",
             self.predicted_pace.take()),
            ("requests_processing", "gauge", "Number of requests processing", processing),
            ("requests_deferred", "gauge", "Number of requests deferred", deferred),
            ("n_busy_slots_per_decode", "gauge", "Average number of busy slots per llama_decode() call", busy),
        ):  # fmt: skip
            yield f"# HELP llamacpp:{name} {text}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {_shown(value)}\n"


def _shown(value: float) -> str:
    """Whole numbers as they are, others in six digits, as C++ streams write them."""
    return str(value) if isinstance(value, int) else f"{value:.6g}"
