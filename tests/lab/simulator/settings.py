"""The simulator's own behaviour: environment variables only, since the flags are the real engine's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .faults import Fault, parse_many


@dataclass(frozen=True, slots=True)
class Settings:
    """Every value that a test may set; times in engine seconds. The defaults are a published 4-card recipe's figures.

    129 s for a cold prompt of 524,288 tokens, 60 tokens/s for one stream and 200 for eight, 450 s to start.
    """

    scale: float = 1.0
    start_s: float = 450.0
    boot_s: float = 10.0
    shards: int = 8
    prefill_tok_s: float = 4064.0
    decode_tok_s: float = 60.0
    batch_cost: float = 0.2
    kv_tokens: int = 5_895_680
    spec_accept: float = 0.7
    eos_tokens: int = 200
    active_params: float = 37e9
    weights_gib: float = 160.0
    control_port: int | None = None
    control_host: str = "127.0.0.1"
    control_file: Path | None = None
    check_model: bool = False
    faults: tuple[Fault, ...] = ()
    version: str = "0.32.0"
    log_interval_s: float = 10.0
    execute_timeout_s: float = 300.0
    dev_mode: bool = False
    keep_alive_on_death: bool = False
    api_key: str = ""
    force_shutdown: bool = False


def from_environment(env: Mapping[str, str]) -> Settings:
    """Settings of an environment: SIM_* of its own, VLLM_* as the engine reads them. Raises ValueError."""
    port, file = env.get("SIM_CONTROL_PORT", ""), env.get("SIM_CONTROL_FILE", "")
    base = Settings()
    return Settings(
        scale=float(env.get("SIM_SCALE", base.scale)),
        start_s=float(env.get("SIM_START_S", base.start_s)),
        boot_s=float(env.get("SIM_BOOT_S", base.boot_s)),
        shards=int(env.get("SIM_SHARDS", base.shards)),
        prefill_tok_s=float(env.get("SIM_PREFILL_TOK_S", base.prefill_tok_s)),
        decode_tok_s=float(env.get("SIM_DECODE_TOK_S", base.decode_tok_s)),
        batch_cost=float(env.get("SIM_BATCH_COST", base.batch_cost)),
        kv_tokens=int(env.get("SIM_KV_TOKENS", base.kv_tokens)),
        spec_accept=float(env.get("SIM_SPEC_ACCEPT", base.spec_accept)),
        eos_tokens=int(env.get("SIM_EOS_TOKENS", base.eos_tokens)),
        active_params=float(env.get("SIM_ACTIVE_PARAMS", base.active_params)),
        weights_gib=float(env.get("SIM_WEIGHTS_GIB", base.weights_gib)),
        control_port=int(port) if port else None,
        control_host=env.get("SIM_CONTROL_HOST", base.control_host),
        control_file=Path(file) if file else None,
        check_model=env.get("SIM_CHECK_MODEL", "") == "1",
        faults=parse_many(env.get("SIM_FAULT", "")),
        version=env.get("SIM_VERSION", base.version),
        log_interval_s=float(env.get("VLLM_LOG_STATS_INTERVAL", base.log_interval_s)),
        execute_timeout_s=float(env.get("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", base.execute_timeout_s)),
        dev_mode=env.get("VLLM_SERVER_DEV_MODE", "0") == "1",
        keep_alive_on_death=env.get("VLLM_KEEP_ALIVE_ON_ENGINE_DEATH", "0") == "1",
        api_key=env.get("VLLM_API_KEY", ""),
        force_shutdown=env.get("SGL_FORCE_SHUTDOWN", "0").lower() in {"1", "true"},
    )
