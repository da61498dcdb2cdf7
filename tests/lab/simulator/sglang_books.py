"""SGLang's metrics and when they move: some per step, some per 40 decode iterations, some only when a request ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from .dialect import World
from .exposition import Family, Labels, key
from .ledger import Sequence
from .log import Log
from .metrics import process_families
from .sequences import Output

_GAUGES = {
    "num_running_reqs": "The number of running requests.",
    "num_used_tokens": "The number of used tokens.",
    "token_usage": "The token usage.",
    "full_token_usage": "The token usage of full attention.",
    "gen_throughput": "The generation throughput (token/s).",
    "num_queue_reqs": "The number of requests in the waiting queue.",
    "num_grammar_queue_reqs": "The number of requests in the grammar waiting queue.",
    "num_paused_reqs": "The number of paused requests.",
    "num_retracted_reqs": "The number of retracted requests.",
    "cache_hit_rate": "The prefix cache hit rate.",
    "kv_used_tokens": "KV tokens in use.",
    "kv_available_tokens": "KV tokens that are free.",
    "kv_evictable_tokens": "KV tokens that can be evicted.",
    "max_total_num_tokens": "Maximum total number of tokens in the KV cache pool.",
    "utilization": "The utilization.",
}
_COUNTERS = {
    "realtime_tokens": "Tokens processed, per forward pass.",
    "num_retracted_requests": "Number of retracted requests.",
    "estimated_flops_per_gpu": "Estimated floating point operations per GPU.",
}
_FRONTEND = {
    "prompt_tokens": "Number of prefill tokens processed.",
    "generation_tokens": "Number of generation tokens processed.",
    "cached_tokens": "Number of cached prompt tokens.",
    "num_requests": "Number of requests processed.",
    "num_aborted_requests": "Number of requests aborted.",
}
_SPREADS = {
    "time_to_first_token_seconds": (0.1, 0.4, 1.0, 2.0, 4.0, 8.0, 20.0, 40.0, 80.0, 200.0, 400.0),
    "inter_token_latency_seconds": (0.002, 0.006, 0.01, 0.02, 0.04, 0.06, 0.1, 0.2, 0.4, 1.0, 2.0, 4.0, 8.0),
    "e2e_request_latency_seconds": (0.1, 0.4, 1.0, 2.0, 4.0, 8.0, 20.0, 40.0, 80.0, 200.0, 400.0, 1200.0, 2400.0),
    "queue_time_seconds": (0.0, 0.1, 0.4, 1.0, 2.0, 4.0, 10.0, 20.0, 40.0, 100.0, 200.0, 400.0, 1000.0),
}
_IDLE_S = 30.0
_DECODES = 40


class SglangBooks:
    """Books of the schedulers (labels with ranks) and of the tokenizer's process (without)."""

    forgetful = True

    def __init__(self, world: World, log: Log) -> None:
        self.world = world
        self.log = log
        self.families = {name: Family(f"sglang:{name}", "gauge", text) for name, text in _GAUGES.items()}
        for name, text in (_COUNTERS | _FRONTEND).items():
            self.families[name] = Family(f"sglang:{name}", "counter", text)
        for name, buckets in _SPREADS.items():
            self.families[name] = Family(f"sglang:{name}", "histogram", f"Histogram of {name}.", buckets)
        ranks = range(world.launch.data_parallel)
        self.loads: list[dict[str, Any]] = [{"dp_rank": rank, "timestamp": 0.0} for rank in ranks]
        self._decodes = [0 for _ in ranks]
        self._written = [0.0 for _ in ranks]
        self._wrote_decodes = [0 for _ in ranks]
        self._report: list[dict[str, Any]] = [{} for _ in ranks]

    def at(self, rank: int, **more: str) -> Labels:
        """A scheduler's labels."""
        dp = {"dp_rank": str(rank)} if self.world.launch.data_parallel > 1 else {}
        name = self.world.launch.names[0]
        return key(model_name=name, engine_type="unified", tp_rank="0", pp_rank="0", **dp, **more)

    def _front(self) -> Labels:
        return key(model_name=self.world.launch.names[0])

    def step(self, rank: int, stats: dict[str, Any]) -> None:
        """Realtime tokens move with every prefill chunk and every decode iteration."""
        decoded = sum(o["tokens"] for o in stats["outputs"] if not o["first"])
        for mode, tokens in (
            ("prefill_compute", stats["prefill_tokens"]), ("prefill_cache", stats["hits"]), ("decode", decoded),
        ):  # fmt: skip
            self.families["realtime_tokens"].inc(tokens, self.at(rank, mode=mode))
        self.families["num_retracted_requests"].inc(stats["preempted"], self.at(rank))
        if self.world.launch.mfu:
            self.families["estimated_flops_per_gpu"].inc(stats["flops"], self.at(rank))
        self._decodes[rank] += stats["decodes"]
        self._report[rank] = stats

    def gauges(self, rank: int, gauges: dict[str, Any]) -> None:
        """Written per prefill result, per 40 decode iterations, and every 30 s when idle; `loads` with every sign."""
        now = self.world.clock.now()
        self.loads[rank] = {
            "dp_rank": rank, "timestamp": time.time(), "num_running_reqs": gauges["decoding"],
            "num_waiting_reqs": gauges["waiting"], "num_used_tokens": gauges["used"],
            "max_total_num_tokens": gauges["total"], "token_usage": gauges["usage"],
        }  # fmt: skip
        due = self._report[rank]["prefills"] or self._decodes[rank] // _DECODES != self._wrote_decodes[rank] // _DECODES
        if due or now - self._written[rank] >= _IDLE_S:
            self._write(rank, gauges, now)

    def _write(self, rank: int, gauges: dict[str, Any], now: float) -> None:
        decodes = self._decodes[rank] - self._wrote_decodes[rank]
        pace = decodes * max(1, gauges["decoding"]) / max(1e-6, now - self._written[rank])
        self._written[rank], self._wrote_decodes[rank] = now, self._decodes[rank]
        values = {
            "num_running_reqs": gauges["decoding"], "num_queue_reqs": gauges["waiting"],
            "num_used_tokens": gauges["used"], "kv_used_tokens": gauges["used"], "token_usage": gauges["usage"],
            "full_token_usage": gauges["usage"], "gen_throughput": pace, "kv_evictable_tokens": gauges["evictable"],
            "kv_available_tokens": gauges["total"] - gauges["used"] - gauges["evictable"],
            "max_total_num_tokens": gauges["total"], "utilization": gauges["usage"],
        }  # fmt: skip
        for name in _GAUGES:
            self.families[name].set(values.get(name, 0.0), self.at(rank))

    def output(self, sequence: Sequence, output: Output) -> None:
        """Latencies move as tokens stream; the token counters only when a request ends."""
        spent = output.at - (sequence.arrived if output.first else sequence.last_at)
        name = "time_to_first_token_seconds" if output.first else "inter_token_latency_seconds"
        self.families[name].observe(spent, self._front())
        sequence.last_at = output.at
        sequence.tokens += output.tokens
        if output.reason:
            self._finished(sequence, output)

    def _finished(self, sequence: Sequence, output: Output) -> None:
        for name, amount in (("prompt_tokens", sequence.prompt), ("generation_tokens", sequence.tokens),
                             ("cached_tokens", output.cached), ("num_requests", 1)):  # fmt: skip
            self.families[name].inc(amount, self._front())
        self.families["e2e_request_latency_seconds"].observe(output.at - sequence.arrived, self._front())
        queued = max(0.0, output.scheduled - sequence.arrived)
        self.families["queue_time_seconds"].observe(queued, self.at(sequence.rank))

    def stray(self, output: Output) -> None:
        """The scheduler goes on with what the tokenizer's process has forgotten."""
        text = f"Received output for rid={output.id!r} but the state was deleted in TokenizerManager."
        self.log.note("", text)

    def aborted(self, sequence: Sequence) -> None:
        """Counted when the abort is sent."""

    def left(self, sequence: Sequence) -> None:
        """A client that hung up leaves no trace but its abort."""

    def anew(self) -> None:
        """Counters and histograms; gauges stay."""
        for family in self.families.values():
            family.anew()

    def abort_sent(self) -> None:
        """An abort goes to the schedulers, whether or not it finds anything."""
        self.families["num_aborted_requests"].inc(1, self._front())

    def render(self) -> str:
        """The text; a series is there once it was written."""
        return "".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for family in (*process_families(), *self.families.values()):
            if family.values or family.distributions:
                yield from family.render(created=False)
