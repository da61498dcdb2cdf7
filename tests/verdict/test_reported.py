"""Rows beyond the fault matrix, from public reports: what supervisors took for dead, and what they never saw.

Each row's name begins with its source, `owner/repository#number`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from agent.engines.model import EngineKind, FailureClass
from agent.verdict.model import Judged, Remedy
from tests.verdict import reported as r
from tests.verdict import scenarios as s
from tests.verdict.rows import STARTUP, SUSPECT, Loud, Quiet, must_fire, must_not_fire

SGLANG: dict[str, Any] = {"engine": s.SGLANG}
LLAMA: dict[str, Any] = {"engine": s.LLAMA}
TRTLLM: dict[str, Any] = {"engine": s.TRTLLM}
TABBY: dict[str, Any] = {"engine": s.TABBY}
OPENAI: dict[str, Any] = {"engine": replace(s.TABBY, kind=EngineKind.OPENAI)}
UNSEEN = frozenset({Judged.UNOBSERVABLE})
STARTING = frozenset({Judged.STARTING})
BUSY = frozenset({Judged.BUSY})
LONG = 447 + 20
"""The long window, and the look that follows it."""


def hangs(row: str, script: Any, within: float, **how: Any) -> Loud:
    """Healthy until the fault, then a hang under work."""
    return Loud(row, s.then(script), within, Judged.STALLED, kind="busy", how=how)


def ends(row: str, code: int, *lines: str, failure: FailureClass, **how: Any) -> Loud:
    """Healthy until it writes these lines and exits."""
    script = s.then(r.exits(code, *lines))
    return Loud(row, script, 15, Judged.DEAD, kind="exit", failure=failure, how=how)


def cannot_start(row: str, line: str, failure: FailureClass, **how: Any) -> Loud:
    """A start that this line ends; a restart cannot mend it."""
    script = s.starts_and_fails(1, line)
    return Loud(row, script, 15, Judged.DEAD, Remedy.GIVE_UP, "exit", failure, 60.0, how | STARTUP)


QUIET = [
    Quiet(
        "sgl-project/sglang#22511 health 503 under long prompts",
        r.long_prompts_fail_health,
        900,
        Judged.BUSY,
        how=SGLANG,
    ),
    Quiet(
        "gonka-ai/gonka#1421 a saturated engine misses deadlines",
        r.two_of_three_scrapes_fail,
        1800,
        Judged.BUSY,
        UNSEEN,
    ),
    Quiet(
        "ai-dynamo/dynamo#14735 kernels of a new shape", r.first_prompt_of_a_shape, 600, Judged.BUSY, UNSEEN | SUSPECT
    ),
    Quiet(
        "vllm-project/vllm-ascend#10343 shards for 43 minutes",
        r.shards_for_an_hour,
        2580,
        Judged.STARTING,
        also=lambda ticks: ticks[-1].verdict.kind == "start_slow",
        how=STARTUP,
    ),
    Quiet(
        "gpustack/gpustack#3888 waits for workers that load",
        r.load_with_waiting_lines,
        900,
        Judged.STARTING,
        how=STARTUP,
    ),
    Quiet(
        "ikawrakow/ik_llama.cpp#1210 an hour of prompt on the processor",
        r.prompt_on_the_processor,
        3700,
        Judged.UNOBSERVABLE,
        BUSY,
        how=LLAMA,
    ),
    Quiet("intel/llm-scaler#391 one runs at 5 tokens/s, 14 wait", r.five_tokens_a_second, 3600, Judged.BUSY),
    Quiet(
        "ggml-org/llama.cpp#22997 the server gives up a prompt after 60 s",
        r.prompt_given_up_by_the_server,
        280,
        Judged.READY,
        BUSY,
        how=LLAMA,
    ),
    Quiet("theroyallab/tabbyAPI#206 health stays 503 after one error", r.scarred_health, 3600, Judged.BUSY, how=TABBY),
    Quiet(
        "NVIDIA/TensorRT-LLM#17787 503 until the model is there",
        r.unready_answers_503,
        700,
        Judged.READY,
        STARTING,
        how=TRTLLM | STARTUP,
    ),
    Quiet(
        "ai-dynamo/snapshot#311 a port that is closed until restored",
        r.restored_from_a_snapshot,
        600,
        Judged.READY,
        STARTING,
        how=STARTUP,
    ),
    Quiet(
        "vllm-project/vllm#39734 a prompt larger than the cache, until its client leaves",
        r.larger_than_the_cache,
        700,
        Judged.BUSY,
        SUSPECT,
    ),
    Quiet("sgl-project/sglang#13419 a benign race after an abort", r.forgotten_states, 600, Judged.BUSY, how=SGLANG),
    Quiet(
        "InternLM/lmdeploy#2837 answers take 50 minutes", r.degraded_but_alive, 3600, Judged.SUSPECT, BUSY, how=OPENAI
    ),
    Quiet(
        "NVIDIA/nvidia-container-toolkit#1227 a shell loses the cards, the engine does not",
        r.cards_lost_for_a_shell,
        600,
        Judged.BUSY,
        SUSPECT,
    ),
]

LOUD = [
    hangs("vllm-project/vllm#45414 nothing is admitted", r.nothing_is_admitted, LONG),
    hangs("vllm-project/vllm#17972 the first request hangs", r.first_request_hangs, LONG),
    hangs("vllm-project/vllm#2731 cache full, no token", r.cache_is_full, 264),
    hangs("vllm-project/vllm#21204 a grammar panics", r.grammar_panics, 264),
    Loud(
        "vllm-project/vllm#44185 both ranks wait for each other",
        s.then(r.both_ranks_wait, before=s.both_decode),
        240,
        Judged.STALLED,
        kind="busy",
        how={"world": s.two_ranks},
    ),
    Loud(
        "vllm-project/vllm#54947 tokens for a closed connection",
        s.then(r.tokens_for_nobody),
        75,
        Judged.ZOMBIE,
        Remedy.ABORT,
        "zombie_burning",
    ),
    ends(
        "vllm-project/vllm#19483 a kernel fails, then the core dies",
        0,
        "(Worker_TP0) ERROR torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "(EngineCore) ERROR EngineCore encountered a fatal error.",
        "(APIServer) ERROR vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
        failure=FailureClass.CUDA_FAULT,
    ),
    ends(
        "vllm-project/vllm#6042 a worker that NCCL takes down",
        1,
        "ERROR 07-01 13:54:43 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 1159 died, exit code: -6",
        "[rank0]:[E ProcessGroupNCCL.cpp:563] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(",
        "[rank0]: To avoid data inconsistency, we are taking the entire process down.",
        failure=FailureClass.NCCL,
    ),
    Loud(
        "sgl-project/sglang#27949 nothing answers, the network's proxies spin",
        s.then(r.nothing_answers_and_peers_spin),
        LONG,
        Judged.DEAD,
        kind="unresponsive",
        how=SGLANG,
    ),
    hangs("sgl-project/sglang#4191 what asks the scheduler hangs", r.info_hangs, 240, **SGLANG),
    hangs("sgl-project/sglang#2741 full load at low power", r.full_load_at_low_power, 240, **SGLANG),
    hangs("sgl-project/sglang#21486 a scheduler aborted below Python", r.aborted_by_nccl, 240, **SGLANG),
    hangs("sgl-project/sglang#6624 crashed, and health says 200", r.crashed_with_health_200, 264, **SGLANG),
    Loud(
        "sgl-project/sglang#40809 the tokenizer hangs",
        s.then(r.tokenizer_hangs, before=s.nothing),
        374,
        Judged.STALLED,
        kind="idle",
        how=SGLANG,
    ),
    ends(
        "sgl-project/sglang#3752 its own watchdog ends it",
        137,
        "[2025-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300)",
        "[2025-03-09 00:57:20] Received sigquit from a child proces. It usually means the child failed.",
        failure=FailureClass.HANG,
        **SGLANG,
    ),
    ends(
        "sgl-project/sglang#26265 a scheduler's exception",
        137,
        "[TP0] Scheduler hit an exception: Traceback (most recent call last):",
        "Killed",
        failure=FailureClass.ENGINE_DEAD,
        **SGLANG,
    ),
    hangs("ggml-org/llama.cpp#16448 requests are logged, not served", r.logs_requests_and_no_more, 240, **LLAMA),
    hangs("ggml-org/llama.cpp#13085 out of memory, and it stays", r.out_of_memory_and_unresponsive, 240, **LLAMA),
    ends(
        "ggml-org/llama.cpp#27749 a kernel fails once a day",
        134,
        "53.26.801.941 E CUDA error: an illegal memory access was encountered",
        failure=FailureClass.CUDA_FAULT,
        **LLAMA,
    ),
    Loud(
        "ggml-org/llama.cpp#20509 the port is closed, the process is there",
        s.then(r.port_closed_with_clients),
        40,
        Judged.DEAD,
        kind="refused",
        how=LLAMA,
    ),
    Loud(
        "ggml-org/llama.cpp#15128 a load that hangs, 503 for ever",
        r.load_hangs,
        310,
        Judged.STALLED,
        kind="start",
        fault=60.0,
        how=LLAMA | STARTUP,
    ),
    Loud(
        "NVIDIA/TensorRT-LLM#18663 503 for ever after a rank's crash",
        s.then(r.serves_503_for_ever, before=s.trt_works),
        30,
        Judged.DEAD,
        kind="engine_dead",
        failure=FailureClass.ENGINE_DEAD,
        how=TRTLLM,
    ),
    Loud(
        "NVIDIA/TensorRT-LLM#4441 hangs after an overlong prompt, no metrics",
        s.then(r.hangs_without_metrics, before=r.trt_without_metrics),
        LONG,
        Judged.STALLED,
        kind="busy",
        how=TRTLLM,
    ),
    cannot_start(
        "NVIDIA/TensorRT-LLM#5872 too little memory for the cache",
        "[TRT-LLM] [RANK 1] [E] Failed to initialize executor on rank 1: Executor creation failed due to insufficient "
        "GPU memory.",
        FailureClass.GPU_OOM,
        **TRTLLM,
    ),
    cannot_start(
        "triton-inference-server/tensorrtllm_backend#168 a cache smaller than one sequence",
        "maxTokensInPagedKvCache must be large enough to process at least 1 sequence to completion",
        FailureClass.KV_TOO_SMALL,
        **TRTLLM,
    ),
    cannot_start(
        "turboderp-org/exllamav3#50 TabbyAPI's model does not fit",
        "ERROR:    RuntimeError: Insufficient VRAM in split for model and cache",
        FailureClass.GPU_OOM,
        **TABBY,
    ),
    Loud(
        "ml-explore/mlx-lm#1493 generation never starts",
        s.then(r.generation_never_starts, before=r.speaks_without_metrics),
        LONG,
        Judged.STALLED,
        kind="busy",
        how=OPENAI,
    ),
]


@pytest.mark.parametrize("case", QUIET, ids=lambda case: case.row)
def test_must_not_fire(case: Quiet):
    must_not_fire(case)


@pytest.mark.parametrize("case", LOUD, ids=lambda case: case.row)
def test_must_fire(case: Loud):
    must_fire(case)


def test_every_row_names_a_source_of_its_own():
    sources = [case.row.split()[0] for case in (*QUIET, *LOUD)]
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", source) for source in sources)
    assert len(set(sources)) == len(sources) >= 25
