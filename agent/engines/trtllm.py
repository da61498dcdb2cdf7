"""TensorRT-LLM's `trtllm-serve`.

`/metrics` is a JSON list of iteration statistics since the last read (a destructive one: exactly one reader), filled
only where `enable_iter_perf_stats` is set in the options file. An empty list says that no iteration ended since, so
the last known state still holds. `numActiveRequests` is counted before its iteration runs and `numCompletedRequests`
are those that it ended, so that what is left is their difference (`_get_init_iter_stats` in its py_executor.py): the
last entry before an idle night still counts the request that it finished. The Prometheus path is woken by
finished requests only and stale in a stall.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.engines.dialect import Silent
from agent.engines.exposition import finite, must_be_metrics, read_json, read_points
from agent.engines.failures import FAILURES
from agent.engines.flags import Flags
from agent.engines.lines import Meaning, fails, read, starts
from agent.engines.model import (
    Command,
    EngineKind,
    EngineLaunch,
    EngineReading,
    FailureClass,
    LogEvent,
    Phase,
    RankReading,
    Traits,
)
from agent.engines.program import Found, arguments, base
from agent.errors import InvalidInput

PORT = 8000
CHUNK = 8192
"""`--max_num_tokens` of trtllm-serve where the launch does not say."""

_PROGRAMS = (("trtllm-serve", "serve"), ("trtllm-serve",), ("-m", "tensorrt_llm.commands.serve"))

_PROMETHEUS = {
    "trtllm_num_requests_running": "running",
    "trtllm_num_requests_waiting": "waiting",
    "trtllm_prompt_tokens_total": "prompt_tokens",
    "trtllm_generation_tokens_total": "generation_tokens",
    "trtllm_kv_cache_utilization": "kv_usage",
    "trtllm_num_requests_completed_total": "finished",
}

_LOG: tuple[Meaning, ...] = (
    *FAILURES,
    fails(FailureClass.GPU_OOM, r"Executor creation failed due to insufficient GPU memory"),
    fails(FailureClass.KV_TOO_SMALL, r"must be large enough to process at least 1 sequence to completion"),
    fails(FailureClass.START_FAILED, r"Executor worker returned error|orte_init failed"),
    fails(FailureClass.HANG, r"Hang detected after \d+ seconds", hang=True),
    fails(
        FailureClass.ENGINE_DEAD,
        r"Error in thread|MPI_ABORT was invoked|Executor worker died|Executor loop crashed on this rank",
    ),
    starts(Phase.READY, r"Application startup complete\."),
    starts(Phase.LOAD, r"Loading .*?(?:weights|shards).*?:\s+(?P<percent>\d+)%|Loading model weights|Rank \d+ .*load"),
    starts(Phase.COMPILE, r"\[Autotuner\]", jit=True),
    starts(Phase.KV_CACHE, r"KV cache quota|Allocated [\d.]+ GiB for max tokens|max_tokens in paged kv cache"),
    starts(Phase.GRAPHS, r"Creating CUDA graph|CUDA graph warmup"),
    starts(Phase.BOOT, r"TensorRT-?LLM version|\[TensorRT-LLM\] TensorRT"),
)


class TrtLlm(Silent):
    """trtllm-serve's habits."""

    kind = EngineKind.TRTLLM
    traits = Traits(unhealthy_is_dead=True, one_reader=True)

    def recognise(self, command: Command) -> bool:
        return arguments(command, _PROGRAMS, None) is not None

    def describe(self, command: Command) -> EngineLaunch:
        found = arguments(command, _PROGRAMS, None) or Found(command.words, dict(command.env))
        flags = Flags(found.words)
        model = flags.first()
        options = flags.has("--extra-llm-api-options", "--config")
        return EngineLaunch(
            kind=self.kind,
            port=flags.positive("--port") or PORT,
            host=flags.text("--host"),
            health="/health",
            # off by default; an options file is the only place that can switch it on, and cannot be read here
            metrics="/metrics" if options else None,
            model=model,
            served_model=flags.text("--served-model-name") or (base(model) if model and model[0] == "/" else model),
            max_model_len=flags.positive("--max-seq-len"),
            chunk_tokens=flags.positive("--max-num-tokens") or CHUNK,
            max_num_seqs=flags.positive("--max-batch-size"),
            tensor_parallel=flags.positive("--tp-size", "--tensor-parallel-size") or 1,
            pipeline_parallel=flags.positive("--pp-size", "--pipeline-parallel-size") or 1,
        )

    def read_metrics(self, text: str) -> EngineReading:
        if text.lstrip()[:1] in ("[", "{"):
            return from_iterations(read_json(text, "TensorRT-LLM's metrics"))
        must_be_metrics(text, "TensorRT-LLM's metrics")
        values = {_PROMETHEUS[point.name]: point.value for point in read_points(text, frozenset(_PROMETHEUS))}
        if not values:
            return EngineReading(ranks=(), blind=("metrics",))
        return EngineReading(ranks=(rank_of(values, steps=()),), blind=("step_counter",))

    def read_log(self, line: str) -> LogEvent | None:
        return read(line, _LOG)


def from_iterations(answer: Any) -> EngineReading:
    """The newest of the iterations since the last read; no rank at all where there was none."""
    rows = answer if isinstance(answer, list) else [answer]
    if not all(isinstance(row, dict) for row in rows):
        raise InvalidInput(what="TensorRT-LLM's metrics", why="the list holds something that is no iteration")
    if not rows:
        return EngineReading(ranks=())
    last = rows[-1]
    values = iteration(last)
    if "iter" not in values:
        raise InvalidInput(what="TensorRT-LLM's metrics", why="the newest entry has no iteration number")
    return EngineReading(ranks=(rank_of(values, steps=("iter",)),), kv_tokens=capacity(last))


def iteration(row: Mapping[str, Any]) -> dict[str, float]:
    """One iteration's numbers by our names."""
    cache = row.get("kvCacheStats")
    blocks = cache if isinstance(cache, dict) else {}
    found = {
        "iter": row.get("iter"),
        "active": row.get("numActiveRequests"),
        "waiting": row.get("numQueuedRequests"),
        "completed": row.get("numCompletedRequests"),
        "used_blocks": blocks.get("usedNumBlocks"),
        "max_blocks": blocks.get("maxNumBlocks"),
    }
    values = {name: number for name, value in found.items() if (number := finite(value)) is not None}
    active, completed = values.pop("active", None), values.pop("completed", 0.0)
    if active is not None:
        values["running"] = max(0.0, active - completed)
    if values.get("max_blocks"):
        values["kv_usage"] = values.get("used_blocks", 0.0) / values["max_blocks"]
    return values


def capacity(row: Mapping[str, Any]) -> float | None:
    cache = row.get("kvCacheStats")
    if not isinstance(cache, dict):
        return None
    blocks, size = cache.get("maxNumBlocks"), cache.get("tokensPerBlock")
    return float(blocks * size) if isinstance(blocks, int) and isinstance(size, int) else None


def rank_of(values: Mapping[str, float], steps: tuple[str, ...]) -> RankReading:
    return RankReading(
        rank="0",
        running=values.get("running"),
        waiting=values.get("waiting"),
        kv_usage=values.get("kv_usage"),
        prompt_tokens=values.get("prompt_tokens"),
        generation_tokens=values.get("generation_tokens"),
        progress={key: value for key, value in values.items() if key != "max_blocks"},
        steps=steps,
    )
