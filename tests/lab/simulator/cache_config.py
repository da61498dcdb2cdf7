"""The labels of vllm:cache_config_info: the cache's configuration, resolved."""

from __future__ import annotations

from .flags import Launch


def labels(launch: Launch, blocks: int) -> dict[str, str]:
    """All label values, as the engine's configuration object prints them."""
    tokens = blocks * launch.block_size
    return {
        "_block_size_resolved": "True",
        "block_size": str(launch.block_size),
        "cache_dtype": str(launch.given.get("kv_cache_dtype", "auto")),
        "cache_hit_alignment_tokens": "None",
        "effective_attention_block_size": str(launch.block_size),
        "enable_mamba_shared_prefix_checkpoint": "False",
        "enable_prefix_caching": str(launch.prefix_caching),
        "gpu_memory_utilization": str(launch.memory_utilization),
        "hash_block_size": "None",
        "is_attention_free": "False",
        "kv_cache_dtype_skip_layers": "[]",
        "kv_cache_layout": "None",
        "kv_cache_max_concurrency": str(round(tokens / launch.max_model_len, 2)),
        "kv_cache_memory_bytes": str(launch.given.get("kv_cache_memory_bytes")),
        "kv_cache_size_tokens": str(tokens),
        "kv_offloading_backend": "native",
        "kv_offloading_size": str(launch.given.get("kv_offloading_size")),
        "kv_sharing_fast_prefill": "False",
        "mamba_block_size": "None",
        "mamba_cache_dtype": "auto",
        "mamba_cache_mode": "none",
        "mamba_page_size_padded": "None",
        "mamba_ssm_cache_dtype": "auto",
        "num_cpu_blocks": "None",
        "num_gpu_blocks": str(blocks),
        "num_gpu_blocks_override": str(launch.given.get("num_gpu_blocks_override")),
        "prefix_cache_retention_interval": "0",
        "prefix_caching_hash_algo": "sha256",
        "prefix_match_unit": "None",
        "replayssm_buffer_len": "16",
        "skip_page_size_padded": "None",
        "sliding_window": "None",
        "swa_bounded_replay": "True",
        "use_kda_recoverssm": "False",
        "use_replayssm": "False",
        "user_specified_block_size": str("block_size" in launch.given),
    }
