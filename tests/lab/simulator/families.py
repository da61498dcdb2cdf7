"""vLLM 0.32's metrics: names, types, help and buckets, in the order of its text."""

from __future__ import annotations

from .exposition import Family

_LATENCY = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
            960.0, 1920.0, 7680.0)  # fmt: skip
_FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
          160.0, 640.0, 2560.0)  # fmt: skip
_BETWEEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_STEP = (1.0, *(float(2**power) for power in range(3, 15)))
_HIGH = (0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0, 30.0,
         60.0)  # fmt: skip

SPEC = (
    ("spec_decode_num_drafts", "counter", "Number of spec decoding drafts."),
    ("spec_decode_num_draft_tokens", "counter", "Number of draft tokens."),
    ("spec_decode_num_accepted_tokens", "counter", "Number of accepted tokens."),
    ("spec_decode_num_accepted_tokens_per_pos", "counter", "Accepted tokens per draft position."),
)
_MFU = "(for Model Flops Utilization calculations)."
COUNTS = (
    ("estimated_flops_per_gpu", "counter", f"Estimated number of floating point operations per GPU {_MFU}"),
    ("estimated_read_bytes_per_gpu", "counter", f"Estimated number of bytes read from memory per GPU {_MFU}"),
    ("estimated_write_bytes_per_gpu", "counter", f"Estimated number of bytes written to memory per GPU {_MFU}"),
    ("num_requests_running", "gauge", "Number of requests in model execution batches."),
    ("num_requests_waiting", "gauge", "Number of requests waiting to be processed."),
    (
        "num_requests_waiting_by_reason", "gauge",
        "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' "
        "= deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all reasons equals "
        "vllm:num_requests_waiting.",
    ),
    (
        "engine_sleep_state", "gauge",
        "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = "
        "1 means sleep level 1; discard_all = 1 means sleep level 2.",
    ),
    ("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage."),
    ("prefix_cache_queries", "counter", "Prefix cache queries, in terms of number of queried tokens."),
    ("prefix_cache_hits", "counter", "Prefix cache hits, in terms of number of cached tokens."),
    (
        "external_prefix_cache_queries", "counter",
        "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of queried "
        "tokens.",
    ),
    (
        "external_prefix_cache_hits", "counter",
        "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of cached "
        "tokens.",
    ),
    ("mm_cache_queries", "counter", "Multi-modal cache queries, in terms of number of queried items."),
    ("mm_cache_hits", "counter", "Multi-modal cache hits, in terms of number of cached items."),
    ("num_preemptions", "counter", "Cumulative number of preemption from the engine."),
    ("prompt_tokens", "counter", "Number of prefill tokens processed."),
    ("prompt_tokens_by_source", "counter", "Number of prompt tokens by source."),
    ("prompt_tokens_cached", "counter", "Number of cached prompt tokens (local + external)."),
    (
        "prompt_tokens_cached_by_source", "counter",
        "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host (offloaded to DRAM), "
        "disk, p2p (transferred from another vLLM instance) or external_unspecified.",
    ),
    ("generation_tokens", "counter", "Number of generation tokens processed."),
    ("request_success", "counter", "Count of successfully processed requests."),
    ("admission_rejections", "counter", "Number of admission attempts rejected by a queue limit, by reason."),
)  # fmt: skip
SPREADS: tuple[tuple[str, str, tuple[float, ...] | None], ...] = (
    ("request_prompt_tokens", "Number of prefill tokens processed.", None),
    ("request_generation_tokens", "Number of generation tokens processed.", None),
    ("iteration_tokens_total", "Histogram of number of tokens per engine_step.", _STEP),
    ("request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.", None),
    ("request_params_n", "Histogram of the n request parameter.", (1.0, 2.0, 5.0, 10.0, 20.0)),
    ("request_params_max_tokens", "Histogram of the max_tokens request parameter.", None),
    ("time_to_first_token_seconds", "Histogram of time to first token in seconds.", _FIRST),
    ("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", _BETWEEN),
    ("request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", _BETWEEN),
    ("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", _LATENCY),
    ("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", _LATENCY),
    ("request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", _LATENCY),
    ("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", _LATENCY),
    ("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", _LATENCY),
    (
        "request_num_preemptions", "Histogram of the number of times a request was preempted.",
        (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0),
    ),
    (
        "request_prefill_kv_computed_tokens",
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).", None,
    ),
)  # fmt: skip


def token_buckets(longest: int) -> tuple[float, ...]:
    """1, 2, 5, 10, … up to the model's length: the engine's own buckets for sizes."""
    bounds: list[float] = []
    power = 1
    while power <= longest:
        bounds += [float(step * power) for step in (1, 2, 5) if step * power <= longest]
        power *= 10
    return tuple(bounds)


def engine_families(longest: int, *, spec: bool) -> dict[str, Family]:
    """All families of the engine by name without `vllm:`, in their order."""
    made: dict[str, Family] = {}
    for name, kind, text in (*(SPEC if spec else ()), *COUNTS):
        made[name] = Family(f"vllm:{name}", "counter" if kind == "counter" else "gauge", text)
    for name, text, buckets in SPREADS:
        made[name] = Family(f"vllm:{name}", "histogram", text, buckets or token_buckets(longest))
    made["cache_config_info"] = Family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
    return made


def http_families() -> dict[str, Family]:
    """The web server's families, as its instrumentator names them."""
    size = "by handler. Only value of header is respected. Otherwise ignored. No percentile calculated. "
    return {
        "requests": Family("http_requests", "counter", "Total number of requests by method, status and handler."),
        "request_size": Family("http_request_size_bytes", "summary", f"Content length of incoming requests {size}"),
        "response_size": Family("http_response_size_bytes", "summary", f"Content length of outgoing responses {size}"),
        "highr": Family(
            "http_request_duration_highr_seconds", "histogram",
            "Latency with many buckets but no API specific labels. Made for more accurate percentile calculations. ",
            _HIGH,
        ),
        "duration": Family(
            "http_request_duration_seconds", "histogram",
            "Latency with only few buckets by handler. Made to be only used if aggregation by handler is important. ",
            (0.1, 0.5, 1.0),
        ),
    }  # fmt: skip
