"""The words in which every engine is described: what its launch says, one scrape, one log line, how it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class EngineKind(StrEnum):
    """What serves tokens."""

    VLLM = "vllm"
    SGLANG = "sglang"
    LLAMACPP = "llamacpp"
    TRTLLM = "trtllm"
    TABBYAPI = "tabbyapi"
    OPENAI = "openai"


class Task(StrEnum):
    """What the served model gives, and so what a canary can ask of it."""

    GENERATE = "generate"
    EMBED = "embed"
    RERANK = "rerank"


@dataclass(frozen=True, slots=True)
class Command:
    """What a container or a process will run: the words after the image, with what the image may add in front.

    `words` is entrypoint and arguments as one list where the entrypoint is known; `image` is the reference, a hint
    where the entrypoint is the image's own (`lmsysorg/sglang`, `ghcr.io/ggml-org/llama.cpp:server`).
    """

    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None


@dataclass(frozen=True, slots=True)
class EngineLaunch:
    """What a launch's own flags say about the engine; None is "not said and no default known"."""

    kind: EngineKind
    port: int | None = None
    host: str | None = None
    health: str | None = None
    """Path of the endpoint that says the HTTP side is up, e.g. `/health`."""
    metrics: str | None = None
    """Path of the metrics, None where the engine has none or the launch did not switch them on."""
    model: str | None = None
    """Path or repository of the weights, as the launch says it."""
    served_model: str | None = None
    """The name that requests use."""
    max_model_len: int | None = None
    """Tokens."""
    chunk_tokens: int | None = None
    """Prefill tokens a step (`--max-num-batched-tokens`, `--chunked-prefill-size`, `--ubatch-size`)."""
    max_num_seqs: int | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    ready_timeout_s: float | None = None
    """A start-up limit that the launch itself states (`VLLM_ENGINE_READY_TIMEOUT_S`)."""
    chunked: bool = True
    """A prompt is worked off in steps; else one step takes all of it, and nothing of the engine moves meanwhile."""
    guarded: bool = False
    """An API key is asked of requests."""
    dev_mode: bool = False
    """vLLM's developer endpoints are on (loop ping, abort)."""
    speculative_tokens: int | None = None
    task: Task = Task.GENERATE
    tls: bool = False
    """The engine speaks HTTPS."""
    clientless_work: bool = False
    """Requests may run with no client attached (stored background responses), so no connection proves nothing."""

    @property
    def gpus_needed(self) -> int:
        """Cards that the parallel sizes multiply to."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel


def number_of(rank: str) -> str:
    """The data-parallel rank in a scheduler's name (`1`, or `1/tp2` for one of several of it); empty: there is none."""
    number = rank.partition("/")[0]
    return number if number.isdecimal() else ""


@dataclass(frozen=True, slots=True)
class RankReading:
    """One scheduler's figures in one scrape (vLLM's `engine` label, SGLang's `dp_rank`); None is "not exported".

    `progress` holds every component whose change proves that the scheduler turned, by name; they are compared as raw
    numbers and never added up over ranks. `steps` names those of them that are counters moved by every step, those of
    a prefill too; with none, whether a prefill can be seen depends on the gauge `kv_usage`.
    """

    rank: str
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    """0..1 of the KV cache held by live work."""
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    finished: float | None = None
    """Requests that ended in any counted way, since the engine's start."""
    drafted: float | None = None
    accepted: float | None = None
    held_tokens: float | None = None
    """KV tokens of live work alone: SGLang counts a request in prefill neither as running nor as queued."""
    decoded: float | None = None
    """Tokens counted step by step, where `generation_tokens` are counted when their request ends."""
    prefilled: float | None = None
    """Prompt tokens counted as they are computed, what a cache gave left out; as `decoded`."""
    asleep: bool = False
    echo: bool = False
    """One more scheduler of a rank that is here already: it counts the same requests and tokens, and no sum has it."""
    progress: Mapping[str, float] = field(default_factory=dict)
    steps: tuple[str, ...] = ()

    @property
    def number(self) -> str:
        """Its data-parallel rank, as a request can name it; empty where it has none."""
        return number_of(self.rank)

    @property
    def made(self) -> float | None:
        """Tokens made so far, by the counter that is nearest to the making."""
        return self.generation_tokens if self.decoded is None else self.decoded

    @property
    def counted(self) -> float | None:
        """Requests that the scheduler counts, running + waiting; None: not exported."""
        if self.running is None and self.waiting is None:
            return None
        return (self.running or 0.0) + (self.waiting or 0.0)

    @property
    def untouched(self) -> bool:
        """It has made no step yet: its counters stand at 0, and its gauges are exported with the first one, as by vLLM
        with several API servers."""
        return self.counted is None and self.prompt_tokens == 0 and not self.generation_tokens and not self.finished

    @property
    def work(self) -> float | None:
        """Requests in the scheduler (those counted, one at least while tokens are held); None: not exported."""
        return None if self.counted is None else max(self.counted, 1.0 if self.held_tokens else 0.0)


@dataclass(frozen=True, slots=True)
class EngineReading:
    """One scrape of an engine's metrics."""

    ranks: tuple[RankReading, ...]
    process_start: float | None = None
    """Seconds since the epoch; another value than before is a restarted engine."""
    blind: tuple[str, ...] = ()
    """Signals that this version does not export, by name (`kv_usage`, `progress`, …)."""
    kv_tokens: float | None = None
    """Capacity of the KV cache in tokens, where the engine says it."""
    prefill_seconds_sum: float | None = None
    prefill_seconds_count: float | None = None
    cached_tokens: float | None = None
    """Prompt tokens that a cache gave, since the engine's start: a prefill with any of them was not cold."""

    @property
    def apart(self) -> tuple[RankReading, ...]:
        """The ranks that may be added up: each counts requests of its own."""
        return tuple(rank for rank in self.ranks if not rank.echo)


class Phase(StrEnum):
    """Where a start-up is."""

    BOOT = "boot"
    LOAD = "load"
    COMPILE = "compile"
    KV_CACHE = "kv_cache"
    GRAPHS = "graphs"
    WARM_UP = "warm_up"
    READY = "ready"


class FailureClass(StrEnum):
    """Why an engine failed, by its log and its exit."""

    BAD_FLAG = "bad_flag"
    MODEL_PATH = "model_path"
    WEIGHTS = "weights"
    ARCHITECTURE = "architecture"
    IMAGE = "image"
    AUTHENTICATION = "authentication"
    KV_TOO_SMALL = "kv_too_small"
    PORT = "port"
    DRIVER = "driver"
    GPU_BUSY = "gpu_busy"
    GPU_OOM = "gpu_oom"
    HOST_OOM = "host_oom"
    NETWORK = "network"
    DISK_FULL = "disk_full"
    NVML_LOST = "nvml_lost"
    NO_CARDS = "no_cards"
    CUDA_FAULT = "cuda_fault"
    NCCL = "nccl"
    SHARED_MEMORY = "shared_memory"
    MEMLOCK = "memlock"
    ENGINE_DEAD = "engine_dead"
    WORKER_DIED = "worker_died"
    HANG = "hang"
    START_FAILED = "start_failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LogEvent:
    """What one log line means; lines that mean nothing give none.

    `phase` and `ratio` (0..1 of that phase) for start-up progress; `failure` for a class of fault; `jit` for compilers
    at work; `hang` for lines that a hung engine writes (shm_broadcast); `progress` for a line that only a turning
    scheduler writes, which is all that an engine without metrics shows; `draining` for one that was told to end;
    `paused` for one that was told to stand still (True) or to go on (False); `detached` for an answered request that
    may run on by itself, with no client connected; `unsure` for a failure in a line that may be the rest of what a
    client sent, so that it counts in a start alone.
    """

    text: str
    phase: Phase | None = None
    ratio: float | None = None
    failure: FailureClass | None = None
    jit: bool = False
    hang: bool = False
    progress: bool = False
    draining: bool = False
    paused: bool | None = None
    detached: bool = False
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request as data: what to send, without address, key or deadline; `headers` beside the usual ones."""

    path: str
    method: str = "GET"
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pong:
    """What a loop ping's answer says.

    `alive` None: this version has no such ping, so the answer says nothing. `age`: seconds since the scheduler's last
    heartbeat, None where not told. `position`: where its requests stand, in the engine's own numbers; another one than
    before is a step that was made. None where not told.
    """

    alive: bool | None
    asleep: bool = False
    age: float | None = None
    position: str | None = None


@dataclass(frozen=True, slots=True)
class Aborts:
    """How requests that nobody waits for are ended; empty where the engine offers nothing.

    `known`: those that the HTTP side still knows; harmless to others only when nobody is connected. `everything`: all
    that the scheduler holds, in order; `always_last` is sent whatever the others answered (a pause must not stay).
    """

    known: tuple[Request, ...] = ()
    everything: tuple[Request, ...] = ()
    always_last: tuple[Request, ...] = ()


@dataclass(frozen=True, slots=True)
class Traits:
    """What judging an engine needs to know about its kind.

    `unhealthy_is_dead`: 503 of the health path after `ready` is the engine core's death (vLLM's flag), not a busy or a
    scarred server. `scrape_is_ping`: the metrics are answered by the scheduler's own loop, so a time-out of them with
    a healthy HTTP side is a sign of its own. `min_period`: seconds between scrapes below which they change the
    engine's behaviour.
    """

    unhealthy_is_dead: bool = False
    scrape_is_ping: bool = False
    min_period: float = 0.0
    aims: bool = False
    """A request may name the data-parallel rank that is to answer it."""
    resumes: bool = False
    """An answer goes on when its client has gone, for it to come back to: one that is made step by step is no fault."""
    detaches: bool = False
    """Any request may ask to run on by itself (stored background responses); the log alone says that one was there."""
    gauge_lag: float = 0.0
    """Seconds for which an idle engine may go on showing the requests of its last step."""
    one_reader: bool = False
    """Reading the metrics takes them away: who reads them beside the agent's own look makes it blind."""
    health_costs: bool = False
    """Every question to the health path is a request to the scheduler, so it is not asked at every look."""
