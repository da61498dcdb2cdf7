"""SGLang, 0.4.6 to 0.5.23.

Read in its metrics collector and scheduler: `prompt_tokens_total` and `generation_tokens_total` move only when a
request finishes; `realtime_tokens_total{mode}` (0.5.9 and newer) moves with every prefill chunk and decode iteration.
The request in a chunked prefill is neither running nor queued, so tokens held by live work (`num_used_tokens`) count as
work. Gauges are written every 40 decode steps and every 30 s when idle. `/health` runs a one-token request with 20 s
of patience, so one long batch makes it 503: it says nothing about death, and asking it costs the engine a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent.engines.dialect import Silent, refused
from agent.engines.exposition import Point, must_be_metrics, read_json, read_points
from agent.engines.failures import FAILURES
from agent.engines.flags import Flags
from agent.engines.lines import Meaning, detaches, ends, fails, hangs, moves, pauses, read, starts
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

PORT = 30000

PROGRAMS = (("-m", "sglang.launch_server"), ("sglang", "serve"), ("-m", "sglang.srt.entrypoints.http_server"))

# Written by each scheduler, with its ranks as labels.
_SCHEDULER = {
    "sglang:num_running_reqs": "running",
    "sglang:num_queue_reqs": "waiting",
    "sglang:num_grammar_queue_reqs": "grammar_queue",
    "sglang:num_retracted_reqs": "retracted",
    "sglang:num_used_tokens": "held",
    "sglang:token_usage": "kv_usage",
    "sglang:num_paused_reqs": "paused",
    "sglang:realtime_tokens_total": "realtime",
    "sglang:forward_execution_seconds_total": "forward_seconds",
    "sglang:gpu_execution_seconds_total": "forward_seconds",
    "sglang:estimated_flops_per_gpu_total": "flops",
    "sglang:cuda_graph_passes_total": "graph_passes",
    "sglang:decode_sum_seq_lens": "decode_lengths",
    "sglang:spec_accept_rate": "accept_rate",
    "sglang:max_total_num_tokens": "capacity",
}
# Written by the one HTTP side, for all ranks together.
_FRONTEND = {
    "sglang:prompt_tokens_total": "prompt_tokens",
    "sglang:generation_tokens_total": "generation_tokens",
    "sglang:num_requests_total": "finished",
    "sglang:inter_token_latency_seconds_count": "token_latencies",
    "sglang:time_to_first_token_seconds_count": "first_tokens",
    "sglang:num_aborted_requests_total": "aborted",
}
_START = "process_start_time_seconds"
_WANTED = frozenset((*_SCHEDULER, *_FRONTEND, _START))
_NO_PROGRESS = frozenset({"capacity", "paused", "aborted", "accept_rate"})
_STEPS = ("realtime", "forward_seconds", "flops")

_LOG: tuple[Meaning, ...] = (
    *FAILURES,
    # the soft watchdog (`--soft-watchdog-timeout`) writes stacks and lets the engine go on
    hangs(r"watchdog timeout \(self\.watchdog_timeout=[^,]*, self\.soft=True"),
    fails(FailureClass.HANG, r"[Ww]atchdog timeout \(self\.watchdog_timeout=|Hang detected after", hang=True),
    fails(
        FailureClass.WORKER_DIED,
        r"scheduler died during initialization|Subprocess \S+ .*crashed with exit code|scheduler is dead\. Please check"
        r"|Child process unexpectedly failed with",
    ),
    fails(FailureClass.START_FAILED, r"Initialization failed\. (?:Please see|warmup error)"),
    fails(
        FailureClass.ENGINE_DEAD,
        r"Scheduler hit an exception|SIGQUIT received|Received sigquit from a child",
    ),
    ends(r"Gracefully exiting\.\.\. Remaining number of requests \d+|SIGTERM received"),
    starts(Phase.READY, r"The server is fired up and ready to roll!"),
    starts(
        Phase.COMPILE,
        r"DeepGEMM JIT Pre-Compile|DeepGEMM warmup(?:[^%]*?\s(?P<percent>\d+)%)?|flashinfer\.jit|\[Autotuner\]",
        jit=True,
    ),
    starts(Phase.LOAD, r"Multi-thread loading shards:\s+(?P<percent>\d+)%|Load weight (?:begin|end)\."),
    starts(Phase.LOAD, r"Loading .*checkpoint shards.*?:\s+(?P<percent>\d+)% Completed"),
    starts(Phase.KV_CACHE, r"max_total_num_tokens=\d+|KV Cache is allocated|Memory pool end"),
    starts(Phase.GRAPHS, r"Capturing batches \(.*?\):\s+(?P<percent>\d+)%|Capture (?:cuda|draft) ?graph"),
    starts(Phase.WARM_UP, r"Application startup complete\.|Uvicorn running on"),
    starts(Phase.BOOT, r"server_args=|Init torch distributed (?:begin|ends)"),
    moves(r"Prefill batch|Decode batch"),
    # requests stay where they are while weights are brought up to date; no metric says so
    pauses(r'"POST /pause_generation HTTP/[\d.]+" 200', paused=True),
    pauses(r'"POST /continue_generation HTTP/[\d.]+" 200', paused=False),
    # `background: true` is answered at once and runs on; no flag is needed for it, and no metric tells it apart
    detaches(r'"POST /v1/responses HTTP/[\d.]+" 200'),
)


class SGLang(Silent):
    """SGLang's habits."""

    kind = EngineKind.SGLANG
    traits = Traits(health_costs=True, aims=True, detaches=True, gauge_lag=30.0)

    def recognise(self, command: Command) -> bool:
        return arguments(command, PROGRAMS, None) is not None

    def describe(self, command: Command) -> EngineLaunch:
        found = arguments(command, PROGRAMS, None) or Found(command.words, dict(command.env))
        flags = Flags(found.words)
        model = flags.text("--model-path", "--model")
        ranks = flags.positive("--dp", "--dp-size", "--data-parallel-size") or 1
        return EngineLaunch(
            kind=self.kind,
            port=flags.positive("--port") or PORT,
            host=flags.text("--host"),
            health="/health",
            metrics="/metrics" if flags.has("--enable-metrics") else None,
            model=model,
            served_model=flags.text("--served-model-name") or model,
            max_model_len=flags.positive("--context-length"),
            chunk_tokens=flags.positive("--chunked-prefill-size"),
            chunked=(flags.number("--chunked-prefill-size") or 0) >= 0,
            max_num_seqs=flags.positive("--max-running-requests"),
            tensor_parallel=flags.positive("--tp", "--tp-size", "--tensor-parallel-size") or 1,
            pipeline_parallel=flags.positive("--pp", "--pp-size", "--pipeline-parallel-size") or 1,
            # with DP attention the ranks share the tensor-parallel cards
            data_parallel=1 if flags.has("--enable-dp-attention") else ranks,
            guarded=flags.has("--api-key"),
            speculative_tokens=flags.positive("--speculative-num-draft-tokens", "--speculative-num-steps"),
            task=Task.EMBED if flags.has("--is-embedding") else Task.GENERATE,
            tls=flags.has("--ssl-keyfile", "--ssl-certfile"),
        )

    def read_metrics(self, text: str) -> EngineReading:
        must_be_metrics(text, "SGLang's metrics")
        schedulers: dict[str, dict[str, float]] = {}
        frontend: dict[str, float] = {}
        start: float | None = None
        for point in read_points(text, _WANTED):
            if point.name == _START:
                start = point.value
            elif point.name in _FRONTEND:
                name = _FRONTEND[point.name]
                frontend[name] = frontend.get(name, 0.0) + point.value
            else:
                values = schedulers.setdefault(rank_name(point.labels), {})
                values[component(point)] = point.value
        if not schedulers:
            return EngineReading(ranks=(), process_start=start, blind=("metrics",))
        alone = len(schedulers) == 1
        first = leaders(schedulers)
        ranks = tuple(
            rank_of(name, values, frontend, alone, name not in first) for name, values in sorted(schedulers.items())
        )
        capacity = [schedulers[name]["capacity"] for name in first if "capacity" in schedulers[name]]
        return EngineReading(
            ranks=ranks,
            process_start=start,
            blind=blind_spots(ranks),
            kv_tokens=sum(capacity) if capacity else None,
        )

    def read_log(self, line: str) -> LogEvent | None:
        return read(line, _LOG)

    def pings(self, launch: EngineLaunch) -> tuple[Request, ...]:
        """Since 0.5.9; the scheduler's own answer, since 0.5.15 a snapshot with the time of its last heartbeat."""
        return (Request("/v1/loads"),)

    def read_pong(self, status: int, text: str, now: float) -> Pong:
        """404 is an older version, which has no such ping; 401 one that asks for a key that is not known here."""
        if status != 200:
            return refused(status) or Pong(alive=False)
        return Pong(alive=True, age=age_of(text, now))

    def aborts(self, launch: EngineLaunch) -> Aborts:
        """`abort_all` alone gets to the scheduler: by id it is dropped once the HTTP side has forgotten the request."""
        return Aborts(everything=(Request("/abort_request", "POST", {"rid": "", "abort_all": True}),))


def age_of(text: str, now: float) -> float | None:
    """Seconds since the oldest scheduler heartbeat in an answer of `/v1/loads`; `now` in seconds since the epoch."""
    try:
        answer = read_json(text, "SGLang's loads")
    except AgentError:
        return None
    loads = answer.get("loads", [answer]) if isinstance(answer, dict) else answer
    stamps = [load.get("timestamp") for load in loads if isinstance(load, dict)] if isinstance(loads, list) else []
    numbers = [float(stamp) for stamp in stamps if isinstance(stamp, int | float) and stamp > 0]
    return max(0.0, now - min(numbers)) if numbers else None


def rank_name(labels: Mapping[str, str]) -> str:
    """A scheduler by its data-parallel rank, with tensor and pipeline rank where those are not the first."""
    name = labels.get("dp_rank") or "0"
    for key, short in (("tp_rank", "tp"), ("pp_rank", "pp")):
        if labels.get(key, "0") not in ("", "0"):
            name += f"/{short}{labels[key]}"
    return name


def leaders(names: Iterable[str]) -> set[str]:
    """Of each data-parallel rank its first scheduler. With `--enable-metrics-for-all-schedulers` all of them write, and
    those of a tensor or pipeline group count the same requests."""
    found: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (len(name), name)):
        found.setdefault(name.partition("/")[0], name)
    return set(found.values())


def component(point: Point) -> str:
    """The name in the rank's values; what is split by a label stays split."""
    name = _SCHEDULER[point.name]
    mode = point.labels.get("mode")
    return f"{name}.{mode}" if name == "realtime" and mode else name


def rank_of(
    name: str, values: Mapping[str, float], frontend: Mapping[str, float], alone: bool, echo: bool
) -> RankReading:
    """One scheduler. The HTTP side's counters prove progress of a lone one only: of several, whose would it be?"""
    progress = {key: value for key, value in values.items() if key not in _NO_PROGRESS}
    told = frontend if alone or name == "0" else {}
    if alone:
        progress |= {key: value for key, value in frontend.items() if key not in _NO_PROGRESS}
    return RankReading(
        rank=name,
        running=values.get("running"),
        waiting=waiting_of(values),
        kv_usage=values.get("kv_usage"),
        prompt_tokens=told.get("prompt_tokens"),
        generation_tokens=told.get("generation_tokens"),
        finished=told.get("finished"),
        held_tokens=values.get("held"),
        decoded=values.get("realtime.decode"),
        prefilled=values.get("realtime.prefill_compute"),
        echo=echo,
        asleep=bool(values.get("paused")) and not values.get("running"),
        progress=progress,
        steps=tuple(key for key in progress if key.split(".")[0] in _STEPS),
    )


def waiting_of(values: Mapping[str, float]) -> float | None:
    """Queued requests, those that wait for a grammar too."""
    if "waiting" not in values:
        return None
    return values["waiting"] + values.get("grammar_queue", 0.0)


def blind_spots(ranks: tuple[RankReading, ...]) -> tuple[str, ...]:
    missing = {
        "kv_usage": any(rank.kv_usage is None for rank in ranks),
        "step_counter": not all(rank.steps for rank in ranks),
    }
    return tuple(name for name, absent in missing.items() if absent)
