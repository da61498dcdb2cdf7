"""The command line of `sglang.launch_server`, read into the same launch as vLLM's."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from .flag_table import names
from .flags import Launch

INT = """
port tensor-parallel-size/tp-size pipeline-parallel-size/pp-size data-parallel-size/dp-size
expert-parallel-size/ep-size context-length max-running-requests max-queued-requests max-total-tokens
chunked-prefill-size max-prefill-tokens page-size stream-interval random-seed nnodes node-rank cuda-graph-max-bs
speculative-num-steps speculative-eagle-topk speculative-num-draft-tokens decode-log-interval
num-continuous-decode-steps tokenizer-worker-num
"""
FLOAT = """
mem-fraction-static schedule-conservativeness watchdog-timeout soft-watchdog-timeout dist-timeout
speculative-accept-threshold-single
"""
TEXT = """
model-path/model host tokenizer-path served-model-name dtype quantization kv-cache-dtype load-format revision device
chat-template tool-call-parser reasoning-parser api-key admin-api-key attention-backend prefill-attention-backend
decode-attention-backend sampling-backend moe-runner-backend moe-a2a-backend fp8-gemm-backend dist-init-addr log-level
log-level-http schedule-policy speculative-algorithm speculative-draft-model-path json-model-override-args
disaggregation-mode grammar-backend download-dir file-storage-path mm-attention-backend
"""
SWITCH = """
enable-metrics trust-remote-code enable-cache-report enable-dp-attention enable-torch-compile enable-mixed-chunk
enable-p2p-check enable-deterministic-inference enable-mfu-metrics enable-metrics-for-all-schedulers enable-ep-moe
disable-cuda-graph disable-radix-cache disable-overlap-schedule disable-custom-all-reduce skip-server-warmup
is-embedding enable-multimodal enable-hierarchical-cache log-requests skip-tokenizer-init enable-lora
"""
_SHORT = {"--tensor-parallel-size": "--tp", "--pipeline-parallel-size": "--pp", "--data-parallel-size": "--dp"}


def parser_of_launches() -> argparse.ArgumentParser:
    """The parser, whose errors end the process with code 2."""
    usage = "launch_server.py [-h] --model-path MODEL_PATH [--host HOST] [--port PORT] ..."
    parser = argparse.ArgumentParser(prog="launch_server.py", usage=usage, argument_default=argparse.SUPPRESS)
    for table, kind in ((INT, int), (FLOAT, float), (TEXT, str)):
        for first, *others in names(table):
            short = [_SHORT[first]] if first in _SHORT else []
            parser.add_argument(first, *short, *(f"--{other}" for other in others), type=kind)
    for options in names(SWITCH):
        parser.add_argument(*options, action="store_true")
    return parser


def parse(arguments: Sequence[str]) -> Launch:
    """The arguments after the module's name. Ends the process with code 2 on a bad one."""
    parser = parser_of_launches()
    given = vars(parser.parse_args(list(arguments)))
    if "model_path" not in given:
        parser.error("the following arguments are required: --model-path/--model")
    return _launch(given)


def _launch(given: dict[str, Any]) -> Launch:
    model = given["model_path"]
    tensor = given.get("tensor_parallel_size", 1)
    ranks = given.get("data_parallel_size", 1)
    return Launch(
        model=model,
        names=(given.get("served_model_name", model),),
        host=given.get("host", "127.0.0.1"),
        port=given.get("port", 30000),
        max_model_len=given.get("context_length", 32768),
        max_running=given.get("max_running_requests", 2048),
        batch_tokens=given.get("chunked_prefill_size", 8192),
        block_size=given.get("page_size", 1),
        tensor_parallel=tensor,
        pipeline_parallel=given.get("pipeline_parallel_size", 1),
        data_parallel=1 if given.get("enable_dp_attention") else ranks,
        api_keys=(given["api_key"],) if "api_key" in given else (),
        prefix_caching=not given.get("disable_radix_cache", False),
        spec_tokens=max(0, given.get("speculative_num_draft_tokens", 1) - 1),
        mfu=given.get("enable_mfu_metrics", False),
        load_tracking=False,
        shutdown_timeout=0,
        eager=given.get("disable_cuda_graph", False),
        log_stats=given.get("enable_metrics", False),
        access_log=True,
        tokens_only=False,
        memory_utilization=given.get("mem_fraction_static", 0.88),
        given=given,
    )
