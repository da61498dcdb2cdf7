"""What the API server counts: step-fresh figures from every step, token figures only from steps with an output."""

from __future__ import annotations

import gc
import os
import platform
import resource
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .exposition import Family, Labels, key
from .families import engine_families, http_families
from .flags import Launch

_UNCOUNTED = {"/metrics", "/health", "/load", "/ping", "/version", "/server_info"}
REASONS = ("stop", "length", "abort", "error", "repetition")
_STATES = ("awake", "weights_offloaded", "discard_all")
_STARTED = time.time()
# With several API servers a gauge is the most recent value of all their files: none before the rank's first step.
_STEP_GAUGES = {"num_requests_running", "num_requests_waiting", "num_requests_waiting_by_reason", "kv_cache_usage_perc"}


class EngineMetrics:
    """The families of one engine; every series carries `engine` (the data-parallel rank) and `model_name`."""

    def __init__(self, launch: Launch, ranks: int) -> None:
        self.model = launch.names[0]
        self.spec_tokens = launch.spec_tokens
        self.mfu = launch.mfu
        self.families = engine_families(launch.max_model_len, spec=launch.spec_tokens > 0)
        self.several_servers = ranks > 1
        for rank in range(ranks):
            self._touch(rank)

    def at(self, rank: int, **more: str) -> Labels:
        """The labels of a rank's series."""
        return key(engine=str(rank), model_name=self.model, **more)

    def _touch(self, rank: int) -> None:
        extra = {
            "num_requests_waiting_by_reason": [{"reason": r} for r in ("capacity", "deferred")],
            "engine_sleep_state": [{"sleep_state": s} for s in _STATES],
            "prompt_tokens_by_source": [
                {"source": s} for s in ("local_compute", "local_cache_hit", "external_kv_transfer")
            ],
            "prompt_tokens_cached_by_source": [
                {"source": s} for s in ("device", "host", "p2p", "disk", "external_unspecified")
            ],
            "request_success": [{"finished_reason": r} for r in REASONS],
            "spec_decode_num_accepted_tokens_per_pos": [{"position": str(p)} for p in range(self.spec_tokens)],
        }
        for name, family in self.families.items():
            if name == "admission_rejections":
                for reason in ("max_num_queued_reqs", "max_num_queued_tokens"):
                    family.touch(key(model_name=self.model, reason=reason))
            elif name != "cache_config_info" and not (self.several_servers and name in _STEP_GAUGES):
                for labels in extra.get(name, [{}]):
                    family.touch(self.at(rank, **labels))
        self.sleep(rank, 0)

    def sleep(self, rank: int, level: int) -> None:
        """0 awake, 1 weights offloaded, 2 everything discarded."""
        for place, state in enumerate(_STATES):
            self.families["engine_sleep_state"].set(float(place == level), self.at(rank, sleep_state=state))

    def cache_config(self, rank: int, pairs: Mapping[str, str]) -> None:
        """The static line about the cache, once it is known."""
        self.families["cache_config_info"].set(1.0, tuple({**pairs, "engine": str(rank)}.items()))

    def gauges(self, rank: int, running: int, waiting: int, usage: float) -> None:
        """SchedulerStats: they come with every step."""
        at = self.at(rank)
        self.families["num_requests_running"].set(running, at)
        self.families["num_requests_waiting"].set(waiting, at)
        self.families["num_requests_waiting_by_reason"].set(waiting, self.at(rank, reason="capacity"))
        self.families["num_requests_waiting_by_reason"].set(0, self.at(rank, reason="deferred"))
        self.families["kv_cache_usage_perc"].set(usage, at)

    def gauge(self, name: str, rank: int) -> float:
        """A gauge as it stands."""
        return self.families[name].values[self.at(rank)]

    def step(self, rank: int, report: Mapping[str, Any]) -> None:
        """The counters of SchedulerStats: they too come with every step."""
        at = self.at(rank)
        self.families["prefix_cache_queries"].inc(report["queries"], at)
        self.families["prefix_cache_hits"].inc(report["hits"], at)
        self.families["prompt_tokens_cached_by_source"].inc(report["hits"], self.at(rank, source="device"))
        self.families["num_preemptions"].inc(report["preempted"], at)
        if self.mfu:
            self.families["estimated_flops_per_gpu"].inc(report["flops"], at)
            self.families["estimated_read_bytes_per_gpu"].inc(report["flops"] / 100, at)
            self.families["estimated_write_bytes_per_gpu"].inc(report["flops"] / 1000, at)
        if self.spec_tokens:
            self._drafts(rank, report["drafts"], report["accepted"])

    def _drafts(self, rank: int, drafts: int, accepted: list[int]) -> None:
        at = self.at(rank)
        self.families["spec_decode_num_drafts"].inc(drafts, at)
        self.families["spec_decode_num_draft_tokens"].inc(drafts * self.spec_tokens, at)
        self.families["spec_decode_num_accepted_tokens"].inc(sum(accepted), at)
        for place in range(self.spec_tokens):
            hits = sum(1 for count in accepted if count > place)
            self.families["spec_decode_num_accepted_tokens_per_pos"].inc(hits, self.at(rank, position=str(place)))

    def prompt(self, rank: int, tokens: int, cached: int) -> None:
        """A prompt is complete: all of it is counted now, at the first token."""
        at = self.at(rank)
        self.families["prompt_tokens"].inc(tokens, at)
        self.families["prompt_tokens_cached"].inc(cached, at)
        self.families["prompt_tokens_by_source"].inc(tokens - cached, self.at(rank, source="local_compute"))
        self.families["prompt_tokens_by_source"].inc(cached, self.at(rank, source="local_cache_hit"))

    def observe(self, name: str, rank: int, value: float, times: int = 1) -> None:
        """Put a value into one of the histograms."""
        self.families[name].observe(value, self.at(rank), times)

    def count(self, name: str, rank: int, amount: float = 1, **labels: str) -> None:
        """Add to one of the counters."""
        self.families[name].inc(amount, self.at(rank, **labels))


class HttpMetrics:
    """What the web server counts of requests that ended."""

    def __init__(self) -> None:
        self.families = http_families()
        self.families["highr"].touch()

    def done(self, handler: str, method: str, status: int, seconds: float, sizes: tuple[int, int]) -> None:
        """One request; those of the probes' handlers do not count."""
        if handler in _UNCOUNTED:
            return
        group = f"{status // 100}xx"
        self.families["requests"].inc(1, key(handler=handler, method=method, status=group))
        self.families["request_size"].observe(sizes[0], key(handler=handler))
        self.families["response_size"].observe(sizes[1], key(handler=handler))
        self.families["highr"].observe(seconds)
        self.families["duration"].observe(seconds, key(handler=handler, method=method))


def process_families() -> Iterator[Family]:
    """The Python client's own: the collector's generations, the platform, the process."""
    collected = Family("python_gc_objects_collected", "counter", "Objects collected during gc")
    stuck = Family("python_gc_objects_uncollectable", "counter", "Uncollectable objects found during GC")
    runs = Family("python_gc_collections", "counter", "Number of times this generation was collected")
    for generation, stats in enumerate(gc.get_stats()):
        at = key(generation=str(generation))
        collected.inc(stats["collected"], at)
        stuck.inc(stats["uncollectable"], at)
        runs.inc(stats["collections"], at)
    info = Family("python_info", "gauge", "Python platform information")
    major, minor, patch = platform.python_version_tuple()
    info.set(1, key(implementation=platform.python_implementation(), major=major, minor=minor, patchlevel=patch,
                    version=platform.python_version()))  # fmt: skip
    yield from (collected, stuck, runs, info, *_own_process())


def _own_process() -> Iterator[Family]:
    pages = [int(word) for word in Path("/proc/self/statm").read_text().split()[:2]]
    used = resource.getrusage(resource.RUSAGE_SELF)
    page = os.sysconf("SC_PAGE_SIZE")
    table: tuple[tuple[str, str, float], ...] = (
        ("virtual_memory_bytes", "Virtual memory size in bytes.", pages[0] * page),
        ("resident_memory_bytes", "Resident memory size in bytes.", pages[1] * page),
        ("start_time_seconds", "Start time of the process since unix epoch in seconds.", _STARTED),
        ("cpu_seconds", "Total user and system CPU time spent in seconds.", used.ru_utime + used.ru_stime),
        ("open_fds", "Number of open file descriptors.", len(os.listdir("/proc/self/fd"))),
        ("max_fds", "Maximum number of open file descriptors.", resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    )
    for name, text, value in table:
        family = Family(f"process_{name}", "counter" if name == "cpu_seconds" else "gauge", text)
        family.inc(value)
        yield family


def render(engine: EngineMetrics, http: HttpMetrics) -> str:
    """The whole text. With several API servers there are neither process figures nor `_created` series."""
    counted = [*engine.families.values(), *http.families.values()]
    if not engine.several_servers:
        parts = [line for family in process_families() for line in family.render(created=False)]
        return "".join(parts + [line for family in counted for line in family.render()])
    counted.sort(key=lambda family: family.kind == "gauge")
    return "".join(line for family in counted for line in family.render(created=False))
