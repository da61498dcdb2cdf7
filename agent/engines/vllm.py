"""vLLM, 0.8 to 0.33 (V1 engine).

What its numbers mean (read in its scheduler and output processor, 0.8.5 to 0.33): in a chunked prefill no token counter
moves until the first token; the gauges of the scheduler are fresh at every step, and `kv_cache_usage_perc` rises with
every chunk; `estimated_flops_per_gpu_total` (0.19 and newer, `--enable-mfu-metrics`) counts every step and stays 0
without the flag. A hung engine core leaves all of them at their last value while `/health`, a mere flag, stays 200.
When the core dies, `/health` is 503 and the process ends with exit code 0 (vllm-project/vllm#48966).
"""

from __future__ import annotations

import re
from dataclasses import replace

from agent.engines.dialect import Silent, refused
from agent.engines.exposition import Point, finite, must_be_metrics, read_json, read_points
from agent.engines.failures import FAILURES
from agent.engines.flags import Flags, truthy
from agent.engines.lines import Meaning, compiles, ends, fails, hangs, moves, read, starts
from agent.engines.model import (
    Aborts,
    Command,
    EngineKind,
    EngineLaunch,
    EngineReading,
    FailureClass,
    LogEvent,
    Phase,
    Pong,
    RankReading,
    Request,
    Task,
    Traits,
)
from agent.engines.program import Found, arguments
from agent.errors import AgentError

PORT = 8000

PROGRAMS = (
    ("vllm", "serve"),
    ("-m", "vllm.entrypoints.openai.api_server"),
    ("-m", "vllm.entrypoints.cli.main", "serve"),
    ("-m", "vllm.entrypoints.api_server"),
)
_IMAGES = re.compile(r"(?:^|/)vllm-(?:openai|openvino|omni|tpu|cpu)(?:-\w+)*(?:[:@]|$)")

# Families whose change proves a step, by the name that they have in `progress`; older names of one family share it.
_PROGRESS = {
    "vllm:generation_tokens_total": "generation_tokens",
    "vllm:prompt_tokens_total": "prompt_tokens",
    "vllm:iteration_tokens_total_count": "iterations",
    "vllm:kv_cache_usage_perc": "kv_usage",
    "vllm:gpu_cache_usage_perc": "kv_usage",
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:num_preemptions_total": "preemptions",
    "vllm:prefix_cache_queries_total": "prefix_queries",
    "vllm:gpu_prefix_cache_queries_total": "prefix_queries",
    "vllm:spec_decode_num_drafts_total": "drafts",
    "vllm:request_success_total": "finished",
    "vllm:estimated_flops_per_gpu_total": "flops",
}
_DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
_SLEEP = "vllm:engine_sleep_state"
_CACHE = "vllm:cache_config_info"
_PREFILL_SUM = "vllm:request_prefill_time_seconds_sum"
_PREFILL_COUNT = "vllm:request_prefill_time_seconds_count"
_HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "vllm:external_prefix_cache_hits_total")
_START = "process_start_time_seconds"
_WANTED = frozenset((*_PROGRESS, _DRAFTED, _ACCEPTED, _SLEEP, _CACHE, _PREFILL_SUM, _PREFILL_COUNT, _START, *_HITS))

_LOG: tuple[Meaning, ...] = (
    *FAILURES,
    hangs(r"No available shared memory broadcast block found in \d+ seconds"),
    fails(FailureClass.HANG, r"RPC call to (?:execute_model|sample_tokens) timed out", hang=True),
    fails(
        FailureClass.WORKER_DIED,
        r"Worker proc \S+ died unexpectedly|WorkerProc failed to start|Worker \S+ pid \d+ died, exit code"
        r"|got fatal signal from worker processes|Worker failed with error",
    ),
    fails(
        FailureClass.START_FAILED,
        r"EngineCore failed to start|Engine core initialization failed|WorkerProc initialization failed",
    ),
    fails(
        FailureClass.ENGINE_DEAD,
        r"EngineDeadError|EngineCore encountered a fatal error|AsyncLLM output_handler failed"
        r"|Engine core process \S+ died unexpectedly|engine core exited unexpectedly",
    ),
    starts(
        Phase.COMPILE,
        r"DeepGEMM JIT Pre-Compile|DeepGEMM warmup(?:[^%]*?\s(?P<percent>\d+)%)?"
        r"|cold cache JIT-compile may take several minutes|flashinfer\.jit|\[Autotuner\]",
        jit=True,
    ),
    starts(Phase.READY, r"Application startup complete\."),
    starts(
        Phase.LOAD,
        r"Loading .*(?:checkpoint shards|Streamer|loader).*?:\s+(?P<percent>\d+)% Completed|Starting to load model "
        r"|Loading weights took [\d.]+ seconds|Model loading took [\d.]+ GiB",
    ),
    starts(
        Phase.COMPILE,
        r"Dynamo bytecode transform time: |torch\.compile (?:takes|took) |Compiling a graph for",
        jit=True,
    ),
    starts(
        Phase.KV_CACHE,
        r"Available KV cache memory: |KV cache size: [\d,]+ tokens|Maximum concurrency for [\d,]+ tokens"
        r"|GiB\) for KV cache on node",
    ),
    starts(Phase.GRAPHS, r"Capturing CUDA graphs?.*?:\s+(?P<percent>\d+)%|Graph capturing finished in \d+ secs"),
    starts(
        Phase.WARM_UP, r"init engine \(profile, create kv cache, warmup model\) took |Starting vLLM (?:API )?server"
    ),
    starts(
        Phase.BOOT,
        r"vLLM (?:API server |server )version \S+|version \d+\.\d+\.\d+\S*$|Initializing a V1 LLM engine \(v"
        r"|Resolved architecture: |Using max model len ",
    ),
    compiles(r"\b(?:nvcc|ninja): |torch\.utils\.cpp_extension"),
    ends(r"\[shutdown\] API server: shutdown triggered"),
    moves(r"Engine \d{3}: Avg prompt throughput: (?!0\.0 tokens/s, Avg generation throughput: 0\.0 )"),
)


class Vllm(Silent):
    """vLLM's habits."""

    kind = EngineKind.VLLM
    traits = Traits(unhealthy_is_dead=True, aims=True)

    def recognise(self, command: Command) -> bool:
        return arguments(command, PROGRAMS, _IMAGES) is not None

    def describe(self, command: Command) -> EngineLaunch:
        found = arguments(command, PROGRAMS, _IMAGES) or Found(command.words, dict(command.env))
        flags = Flags(found.words[1:] if found.words[:1] == ("serve",) else found.words)
        model = flags.text("--model") or flags.first()
        served = flags.text("--served-model-name")
        launch = EngineLaunch(
            kind=self.kind,
            port=flags.positive("--port") or PORT,
            host=flags.text("--host"),
            health="/health",
            metrics=None if flags.has("--disable-log-stats") else "/metrics",
            model=model,
            served_model=served or model,
            max_model_len=flags.positive("--max-model-len"),
            chunk_tokens=flags.positive("--max-num-batched-tokens"),
            chunked=not flags.has("--no-enable-chunked-prefill"),
            max_num_seqs=flags.positive("--max-num-seqs"),
            tensor_parallel=flags.positive("--tensor-parallel-size", "-tp") or 1,
            pipeline_parallel=flags.positive("--pipeline-parallel-size", "-pp") or 1,
            data_parallel=local_ranks(flags),
            ready_timeout_s=seconds(found.env.get("VLLM_ENGINE_READY_TIMEOUT_S")),
            guarded=flags.has("--api-key") or bool(found.env.get("VLLM_API_KEY")),
            dev_mode=truthy(found.env.get("VLLM_SERVER_DEV_MODE")),
            speculative_tokens=drafted(flags),
            task=task_of(flags),
            tls=flags.has("--ssl-keyfile", "--ssl-certfile"),
            clientless_work=truthy(found.env.get("VLLM_ENABLE_RESPONSES_API_STORE")),
        )
        if flags.has("--headless") or flags.has("--uds"):
            # a headless node serves no HTTP, a Unix socket has no port: nothing can be asked or counted over TCP
            return replace(launch, port=None, host=None, health=None, metrics=None)
        return launch

    def read_metrics(self, text: str) -> EngineReading:
        must_be_metrics(text, "vLLM's metrics")
        ranks: dict[str, dict[str, float]] = {}
        asleep: set[str] = set()
        start: float | None = None
        capacities: dict[str, float] = {}
        for point in read_points(text, _WANTED):
            if point.name == _START:
                start = point.value
            elif point.name == _CACHE:
                if (tokens := capacity(point)) is not None:
                    capacities[point.labels.get("engine", "0")] = tokens
            else:
                rank = point.labels.get("engine", "0")
                add(ranks.setdefault(rank, {}), point)
                if point.name == _SLEEP and point.labels.get("sleep_state") != "awake" and point.value:
                    asleep.add(rank)
        readings = tuple(rank_of(rank, ranks[rank], rank in asleep) for rank in sorted(ranks, key=by_number))
        return EngineReading(
            ranks=readings,
            process_start=start,
            blind=blind_spots(readings, start),
            kv_tokens=sum(capacities.values()) if capacities else None,  # each rank has a cache of its own
            prefill_seconds_sum=total(ranks, _PREFILL_SUM),
            prefill_seconds_count=total(ranks, _PREFILL_COUNT),
            cached_tokens=total(ranks, *_HITS),
        )

    def read_log(self, line: str) -> LogEvent | None:
        return read(line, _LOG)

    def pings(self, launch: EngineLaunch) -> tuple[Request, ...]:
        """Developer mode only. `/is_sleeping` makes a round trip through the core in every version, `/is_paused` from
        0.22 on (before, 0.16 and newer, it is a flag of the HTTP side)."""
        return (Request("/is_sleeping"), Request("/is_paused")) if launch.dev_mode else ()

    def read_pong(self, status: int, text: str, now: float) -> Pong:
        if status != 200:
            return refused(status) or Pong(alive=False)
        try:
            answer = read_json(text, "vLLM's ping")
        except AgentError:
            return Pong(alive=None)
        told = answer if isinstance(answer, dict) else {}
        return Pong(alive=True, asleep=bool(told.get("is_paused") or told.get("is_sleeping")))

    def aborts(self, launch: EngineLaunch) -> Aborts:
        """Developer mode only; `clear_cache=false`, since the default drops the prefix cache with the requests."""
        if not launch.dev_mode:
            return Aborts()
        return Aborts(
            known=(Request("/abort_requests", "POST", {}),),
            everything=(Request("/pause?mode=abort&clear_cache=false", "POST"),),
            always_last=(Request("/resume", "POST"),),
        )


def add(values: dict[str, float], point: Point) -> None:
    """Sum over labels inside one rank (`finished_reason`), never over ranks; newer and older names share a component.

    Flops stay 0 without `--enable-mfu-metrics` and for architectures that it does not cover: then they are no signal.
    """
    name = _PROGRESS.get(point.name, point.name)
    if name == "flops" and not point.value:
        return
    if point.name == _SLEEP:
        return
    values[name] = values.get(name, 0.0) + point.value


def rank_of(rank: str, values: dict[str, float], asleep: bool) -> RankReading:
    """One data-parallel rank."""
    progress = {name: values[name] for name in dict.fromkeys(_PROGRESS.values()) if name in values}
    return RankReading(
        rank=rank,
        running=values.get("running"),
        waiting=values.get("waiting"),
        kv_usage=values.get("kv_usage"),
        prompt_tokens=values.get("prompt_tokens"),
        generation_tokens=values.get("generation_tokens"),
        finished=values.get("finished"),
        drafted=values.get(_DRAFTED),
        accepted=values.get(_ACCEPTED),
        asleep=asleep,
        progress=progress,
        steps=("flops",) if "flops" in progress else (),
    )


def blind_spots(ranks: tuple[RankReading, ...], start: float | None) -> tuple[str, ...]:
    """Signals that this version, or this launch, does not export."""
    if not any(rank.progress for rank in ranks):
        return ("metrics",)
    missing = {
        "kv_usage": any(rank.kv_usage is None for rank in ranks),
        "step_counter": not all(rank.steps for rank in ranks),
        "process_start": start is None,
    }
    return tuple(name for name, absent in missing.items() if absent)


def capacity(point: Point) -> float | None:
    """Tokens of the KV cache: blocks × tokens a block."""
    blocks, size = (finite(point.labels.get(name)) for name in ("num_gpu_blocks", "block_size"))
    return finite(blocks * size) if blocks and size and min(blocks, size) > 0 else None


def total(ranks: dict[str, dict[str, float]], *names: str) -> float | None:
    """A sum over ranks, for averages only."""
    found = [values[name] for values in ranks.values() for name in names if name in values]
    return sum(found) if found else None


def by_number(rank: str) -> tuple[int, str]:
    return (int(rank) if rank.isdecimal() and len(rank) < 10 else 1 << 30, rank)


def local_ranks(flags: Flags) -> int:
    """Data-parallel ranks on this host; one where the launch is itself one rank of several."""
    if flags.has("--data-parallel-rank", "-dpn"):
        return 1
    local = flags.positive("--data-parallel-size-local", "-dpl")
    return local or flags.positive("--data-parallel-size", "-dp") or 1


def drafted(flags: Flags) -> int | None:
    """Tokens a speculative step proposes."""
    stated = flags.json("--speculative-config", "-sc").get("num_speculative_tokens")
    if isinstance(stated, int) and stated > 0:
        return stated
    return flags.positive("--num-speculative-tokens", "--speculative-config.num-speculative-tokens")


def task_of(flags: Flags) -> Task:
    """What the model gives: `--task`, `--runner pooling` and `--convert` say it, a generating model is the default."""
    stated = flags.text("--convert") or flags.text("--task")
    if stated in ("score", "rerank", "classify"):
        return Task.RERANK
    if stated in ("embed", "embedding", "reward") or flags.text("--runner") == "pooling":
        return Task.EMBED
    return Task.GENERATE


def seconds(text: str | None) -> float | None:
    try:
        value = float(text) if text else 0.0
    except ValueError:
        return None
    return value if value > 0 else None
