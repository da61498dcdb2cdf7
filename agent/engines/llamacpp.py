"""llama.cpp's server.

`n_decode_total` counts every call of llama_decode, those of a prefill too; `tokens_predicted_total` moves only when a
slot is released. `/metrics` and `/slots` are answered by the queue that the scheduler works off, so a time-out of them
is a sign of its own; `/health` never touches it. `/slots` is on where `--metrics` is not asked for, and says where each
request stands. A stream of a client that names its conversation (the web page does) outlives the connection and is
taken up again by `/v1/stream/:conv_id` (server-stream.h, 2026), so a request without a client may be sound. Scraped
faster than about once a second, an abandoned request that does not stream is kept alive (seen on a build of 2026:
freed at 1.2 s and slower).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent.engines.dialect import Silent
from agent.engines.exposition import must_be_metrics, read_json, read_points
from agent.engines.failures import FAILURES
from agent.engines.flags import Flags, truthy, whole
from agent.engines.lines import Meaning, ends, fails, moves, read, starts
from agent.engines.model import (
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

PORT = 8080
BATCH = 2048
"""Tokens that the server hands to one llama_decode where `--batch-size` does not say otherwise."""

_PROGRAMS = (("llama-server",), ("llama-server.exe",), ("llama", "serve"))
_IMAGES = re.compile(r"llama\.?cpp\S*[:-](?:\w+-)*server|llama-server")

_PROGRESS = {
    "llamacpp:n_decode_total": "decodes",
    "llamacpp:prompt_tokens_total": "prompt_tokens",
    "llamacpp:tokens_predicted_total": "generation_tokens",
    "llamacpp:requests_processing": "running",
    "llamacpp:requests_deferred": "waiting",
    "llamacpp:kv_cache_usage_ratio": "kv_usage",
    "llamacpp:spec_decode_num_drafts_total": "drafts",
}
_DRAFTED = "llamacpp:spec_decode_num_draft_tokens_total"
_ACCEPTED = "llamacpp:spec_decode_num_accepted_tokens_total"
_PROMPT_SECONDS = "llamacpp:prompt_seconds_total"
_WANTED = frozenset((*_PROGRESS, _DRAFTED, _ACCEPTED, _PROMPT_SECONDS))

_LOG: tuple[Meaning, ...] = (
    *FAILURES,
    fails(
        FailureClass.MODEL_PATH, r"llama_model_loader: failed to load model from|error loading model: failed to open"
    ),
    fails(FailureClass.GPU_OOM, r"unable to allocate \S+ buffer|failed to allocate (?:buffer|compute)"),
    # of its own code, and no fault of a card; of one it writes "CUDA error" before it aborts
    fails(FailureClass.ENGINE_DEAD, r"GGML_ASSERT\(.*failed|GGML_ABORT|Assertion ['`].* failed"),
    fails(FailureClass.START_FAILED, r"exiting due to (?:model loading|HTTP server) error|failed to load model"),
    starts(Phase.READY, r"server is listening on http|listening on http\S+|all slots are idle"),
    starts(Phase.WARM_UP, r"main: model loaded|llama_server: model loaded|warming up the model"),
    starts(Phase.KV_CACHE, r"KV buffer size|llama_kv_cache|n_ctx_slot = "),
    starts(Phase.LOAD, r"load_model: loading model '|load_tensors: |^\.{5,}$"),
    starts(Phase.BOOT, r"build_info|system_info: |llama_server: initializing|common_params_print_info"),
    ends(r"Received second interrupt|cleaning up before exit"),
    moves(r"slot +(?:print_timing|release|launch_slot_): id|prompt processing progress, n_tokens = \d+"),
)


class LlamaCpp(Silent):
    """llama-server's habits."""

    kind = EngineKind.LLAMACPP
    traits = Traits(scrape_is_ping=True, min_period=2.0, resumes=True)

    def recognise(self, command: Command) -> bool:
        return arguments(command, _PROGRAMS, _IMAGES) is not None

    def describe(self, command: Command) -> EngineLaunch:
        found = arguments(command, _PROGRAMS, _IMAGES) or Found(command.words, dict(command.env))
        flags, env = Flags(found.words), found.env
        model = flags.text("-m", "--model", "-hf", "-hfr", "--hf-repo", "-mu", "--model-url") or env.get(
            "LLAMA_ARG_MODEL", env.get("LLAMA_ARG_HF_REPO")
        )
        alias = flags.text("-a", "--alias") or env.get("LLAMA_ARG_ALIAS")
        metrics = flags.has("--metrics") or truthy(env.get("LLAMA_ARG_ENDPOINT_METRICS"))
        return EngineLaunch(
            kind=self.kind,
            port=flags.positive("--port") or positive(env.get("LLAMA_ARG_PORT")) or PORT,
            host=flags.text("--host") or env.get("LLAMA_ARG_HOST"),
            health="/health",
            metrics="/metrics" if metrics else None,
            model=model,
            served_model=alias.split(",")[0] if alias else model,
            max_model_len=flags.positive("-c", "--ctx-size") or positive(env.get("LLAMA_ARG_CTX_SIZE")),
            chunk_tokens=flags.positive("-b", "--batch-size") or positive(env.get("LLAMA_ARG_BATCH")) or BATCH,
            max_num_seqs=flags.positive("-np", "--parallel") or positive(env.get("LLAMA_ARG_N_PARALLEL")),
            guarded=flags.has("--api-key", "--api-key-file") or bool(env.get("LLAMA_API_KEY")),
            speculative_tokens=flags.positive("--draft", "--draft-max", "--draft-n"),
            task=task_of(flags),
            tls=flags.has("--ssl-key-file", "--ssl-cert-file"),
        )

    def read_metrics(self, text: str) -> EngineReading:
        must_be_metrics(text, "llama.cpp's metrics")
        values: dict[str, float] = {}
        for point in read_points(text, _WANTED):
            values[_PROGRESS.get(point.name, point.name)] = point.value
        if not values:
            return EngineReading(ranks=(), blind=("metrics",))
        progress = {name: values[name] for name in _PROGRESS.values() if name in values}
        rank = RankReading(
            rank="0",
            running=values.get("running"),
            waiting=values.get("waiting"),
            kv_usage=values.get("kv_usage"),
            prompt_tokens=values.get("prompt_tokens"),
            generation_tokens=values.get("generation_tokens"),
            drafted=values.get(_DRAFTED),
            accepted=values.get(_ACCEPTED),
            progress=progress,
            steps=("decodes",) if "decodes" in progress else (),
        )
        blind = (*(() if rank.kv_usage is not None else ("kv_usage",)), *(() if rank.steps else ("step_counter",)))
        return EngineReading(ranks=(rank,), blind=blind)

    def read_log(self, line: str) -> LogEvent | None:
        return read(line, _LOG)

    def pings(self, launch: EngineLaunch) -> tuple[Request, ...]:
        """`/slots` is on unless the launch says `--no-slots`, which answers 501 without asking the loop."""
        return (Request("/slots"),)

    def read_pong(self, status: int, text: str, now: float) -> Pong:
        return Pong(alive=True, position=position_of(text)) if status == 200 else Pong(alive=None)


def position_of(text: str) -> str | None:
    """Where every slot stands: its task, the prompt's tokens that are done, the tokens that were made."""
    try:
        slots = read_json(text, "llama.cpp's slots")
    except AgentError:
        return None
    if not isinstance(slots, list) or not all(isinstance(slot, dict) for slot in slots):
        return None
    return " ".join(f"{slot.get('id_task')}:{slot.get('n_prompt_tokens_processed')}:{decoded(slot)}" for slot in slots)


def decoded(slot: Mapping[str, Any]) -> Any:
    """Tokens made for a slot's task; the place of the figure has changed over the builds."""
    found = slot.get("next_token")
    token = found[0] if isinstance(found, list) and found else found
    return token.get("n_decoded") if isinstance(token, dict) else slot.get("n_decoded")


def task_of(flags: Flags) -> Task:
    if flags.has("--reranking", "--rerank"):
        return Task.RERANK
    return Task.EMBED if flags.has("--embedding", "--embeddings") else Task.GENERATE


def positive(text: str | None) -> int | None:
    number = whole(text) if text else None
    return number if number is not None and number > 0 else None
