"""vLLM: what its flags, its metrics and its log lines mean."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from agent.engines.model import Command, FailureClass, Phase, Task
from agent.engines.vllm import Vllm
from agent.errors import InvalidInput
from tests.lab.pace import cost, second

VLLM = Vllm()


def launch(line: str, **env: str):
    return VLLM.describe(Command(tuple(line.split()), env))


def test_a_launch_with_nothing_said_has_vllms_own_defaults():
    engine = launch("vllm serve org/model")
    assert (engine.port, engine.health, engine.metrics) == (8000, "/health", "/metrics")
    assert (engine.model, engine.served_model) == ("org/model", "org/model")
    assert (engine.max_model_len, engine.chunk_tokens, engine.ready_timeout_s) == (None, None, None)
    assert (engine.gpus_needed, engine.guarded, engine.dev_mode) == (1, False, False)


@pytest.mark.parametrize(("flag", "chunked"), [("", True), ("--enable-chunked-prefill", True),
                                              ("--no-enable-chunked-prefill", False)])  # fmt: skip
def test_a_prefill_in_one_step_is_known_from_the_launch(flag: str, chunked: bool):
    assert launch(f"vllm serve m {flag}").chunked is chunked


def test_a_launch_is_read_flag_by_flag():
    engine = launch(
        "vllm serve /models/m --pipeline-parallel-size 4 -tp=2 --served-model-name chat other --port 8095 "
        "--max_model_len 128K --max-num-seqs 32 --max-num-batched-tokens 8192 --api-key sk",
        VLLM_ENGINE_READY_TIMEOUT_S="3600",
        VLLM_SERVER_DEV_MODE="1",
    )
    assert (engine.port, engine.served_model, engine.max_model_len) == (8095, "chat", 131072)
    assert (engine.pipeline_parallel, engine.tensor_parallel, engine.gpus_needed) == (4, 2, 8)
    assert (engine.max_num_seqs, engine.chunk_tokens, engine.ready_timeout_s) == (32, 8192, 3600.0)
    assert engine.guarded
    assert engine.dev_mode


@pytest.mark.parametrize(
    ("line", "expect"),
    [
        ('vllm serve m --speculative-config {"method":"dspark","num_speculative_tokens":5}', 5),
        ("vllm serve m --speculative-config.num_speculative_tokens 3", 3),
        ("vllm serve m --speculative-config not-json", None),
        ("vllm serve m", None),
    ],
)
def test_speculative_tokens_are_found_however_they_are_written(line, expect):
    assert launch(line).speculative_tokens == expect


@pytest.mark.parametrize(
    ("line", "task"),
    [
        ("vllm serve m", Task.GENERATE),
        ("vllm serve m --task embed", Task.EMBED),
        ("vllm serve m --runner pooling --convert classify", Task.RERANK),
        ("vllm serve m --runner pooling", Task.EMBED),
    ],
)
def test_the_canary_fits_the_models_task(line, task):
    assert launch(line).task is task


def test_a_headless_node_has_nothing_to_ask():
    engine = launch("vllm serve m --headless --data-parallel-size 4 --data-parallel-size-local 2")
    assert (engine.port, engine.health, engine.metrics, engine.data_parallel) == (None, None, None, 2)


def test_no_metrics_where_the_launch_switches_statistics_off():
    assert launch("vllm serve m --disable-log-stats").metrics is None


def test_aborts_need_developer_mode_and_keep_the_prefix_cache():
    assert not VLLM.aborts(launch("vllm serve m")).everything
    aborts = VLLM.aborts(launch("vllm serve m", VLLM_SERVER_DEV_MODE="1"))
    assert "clear_cache=false" in aborts.everything[0].path
    assert aborts.always_last[0].path == "/resume"


@pytest.mark.parametrize(
    ("status", "text", "alive", "asleep"),
    [
        (200, '{"is_sleeping": false}', True, False),
        (200, '{"is_paused": true}', True, True),
        (404, "", None, False),
        (401, '{"error": "Unauthorized"}', None, False),
        (500, "", False, False),
        (200, "<html>", None, False),
    ],
)
def test_a_ping_says_alive_asleep_or_nothing(status, text, alive, asleep):
    pong = VLLM.read_pong(status, text, now=0.0)
    assert (pong.alive, pong.asleep) == (alive, asleep)


METRICS = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a}b \\"c\\""} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 0.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} NaN
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 3.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 4.0
vllm:generation_tokens_total{engine="0",model_name="m"} 1.5e+03
vllm:generation_tokens_created{engine="0",model_name="m"} 1.8e+09
vllm:estimated_flops_per_gpu_total{engine="0",model_name="m"} 7e+15
vllm:engine_sleep_state{engine="1",model_name="m",sleep_state="awake"} 0.0
vllm:engine_sleep_state{engine="1",model_name="m",sleep_state="weights_offloaded"} 1.0
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000"} 1.0
process_start_time_seconds 1.7e+09
"""


def test_each_rank_is_read_for_itself():
    reading = VLLM.read_metrics(METRICS)
    first, second = reading.ranks
    assert (first.rank, first.running, first.waiting, first.kv_usage) == ("0", 2.0, 1.0, 0.25)
    assert (first.finished, first.generation_tokens, first.steps) == (7.0, 1500.0, ("flops",))
    assert (second.rank, second.running, second.kv_usage, second.asleep) == ("1", 0.0, None, True)
    assert (reading.kv_tokens, reading.process_start) == (16000.0, 1.7e9)
    assert "kv_usage" in reading.blind


def test_flops_that_never_moved_are_no_signal():
    """Without --enable-mfu-metrics the counter is there and stays 0."""
    reading = VLLM.read_metrics(METRICS.replace("7e+15", "0.0"))
    assert "flops" not in reading.ranks[0].progress
    assert "step_counter" in reading.blind


@pytest.mark.parametrize("old", ["vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"])
def test_older_names_mean_the_same(old):
    text = METRICS.replace("vllm:kv_cache_usage_perc", old)
    assert VLLM.read_metrics(text).ranks[0].progress["kv_usage"] == 0.25


@pytest.mark.parametrize(
    "text", ["", "   \n", "<html><body>502</body></html>", '{"error": 1}', "\x00\x01", "no metrics"]
)
def test_what_is_no_metrics_is_an_error_of_our_family(text):
    with pytest.raises(InvalidInput, match="vLLM's metrics"):
        VLLM.read_metrics(text)


def test_metrics_of_something_else_leave_everything_blind():
    assert VLLM.read_metrics("python_info 1.0\n").blind == ("metrics",)


@pytest.mark.parametrize(
    "line",
    ["vllm:num_requests_running{", 'vllm:num_requests_running{engine="0"} x', "vllm:num_requests_running", "{} 1"],
)
def test_a_broken_line_costs_itself_only(line):
    reading = VLLM.read_metrics(f"{line}\n{METRICS}")
    assert reading.ranks[0].running == 2.0


def test_the_real_scrapes_are_read_whole_and_fast(shared: Path):
    for name in ("metrics-after-load", "metrics-idle-fresh", "metrics-during-drain"):
        text = (shared / f"captures/vllm/{name}.txt").read_text()
        assert min(cost(partial(VLLM.read_metrics, text)) for _ in range(5)) < 0.005 * second()
        reading = VLLM.read_metrics(text)
        assert reading.ranks[0].work is not None
        assert reading.kv_tokens == 2_097_152
    assert VLLM.read_metrics((shared / "captures/vllm/metrics-during-drain.txt").read_text()).ranks[0].running == 1


def test_a_hung_idle_engine_looks_like_a_healthy_one(shared: Path):
    """The recording of an engine core stopped while idle, with clients waiting: what only a canary can tell."""
    reading = VLLM.read_metrics((shared / "captures/vllm/metrics-idle-hung-with-waiting-clients.txt").read_text())
    assert reading.ranks[0].work == 0


def test_two_data_parallel_ranks_stay_two(shared: Path):
    reading = VLLM.read_metrics((shared / "captures/vllm/metrics-dp2.txt").read_text())
    assert [rank.rank for rank in reading.ranks] == ["0", "1"]
    assert reading.ranks[1].work is None, "several API servers export this rank's gauges nowhere: unknown, not zero"


@pytest.mark.parametrize(
    ("line", "phase", "ratio"),
    [
        (
            "(EngineCore pid=9) DeepGEMM warmup (max_tokens=8192):  35%|###  | 100/300 [02:00<05:00]",
            Phase.COMPILE,
            0.35,
        ),
        ("(EngineCore pid=9) INFO 05-16 04:01:40 [deep_gemm.py:1] DeepGEMM warmup takes long", Phase.COMPILE, None),
        ("INFO 10-01 10:00:00 [api_server.py:1034] vLLM API server version 0.8.5", Phase.BOOT, None),
        ("(EngineCore pid=9) INFO 10-01 [core.py:133] Initializing a V1 LLM engine (v0.33.0) with", Phase.BOOT, None),
        ("(Worker_TP0 pid=1) INFO [gpu_model_runner.py:1] Starting to load model /m...", Phase.LOAD, None),
        ("Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01]", Phase.LOAD, 0.5),
        (
            "\rLoading safetensors checkpoint shards: 25% Completed\rLoading a checkpoint shards: 75% Completed",
            Phase.LOAD,
            0.75,
        ),
        ("INFO [backends.py:1] Dynamo bytecode transform time: 5.1 s", Phase.COMPILE, None),
        ("INFO [gpu_worker.py:1] Available KV cache memory: 12.5 GiB", Phase.KV_CACHE, None),
        ("Capturing CUDA graphs (decode, FULL):  40%|####      | 14/35", Phase.GRAPHS, 0.4),
        ("INFO [core.py:402] init engine (profile, create kv cache, warmup model) took 9 s", Phase.WARM_UP, None),
        ("INFO:     Application startup complete.", Phase.READY, None),
    ],
)
def test_start_up_lines_give_phase_and_percent(line, phase, ratio):
    event = VLLM.read_log(line)
    assert event is not None
    assert (event.phase, event.ratio) == (phase, ratio)


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        ("vllm: error: unrecognized arguments: --no-such-flag", FailureClass.BAD_FLAG),
        ("OSError: [Errno 98] Address already in use", FailureClass.PORT),
        (
            "ValueError: Free memory on device cuda:0 (3.1/79.2 GiB) on startup is less than desired GPU memory "
            "utilization (0.9, 71 GiB)",
            FailureClass.GPU_BUSY,
        ),
        ("ValueError: No available memory for the cache blocks.", FailureClass.KV_TOO_SMALL),
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
            FailureClass.ARCHITECTURE,
        ),
        ("RuntimeError: The NVIDIA driver on your system is too old", FailureClass.DRIVER),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", FailureClass.GPU_OOM),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", FailureClass.CUDA_FAULT),
        ("huggingface_hub.errors.GatedRepoError: 401 Client Error.", FailureClass.AUTHENTICATION),
        ("safetensors_rust.SafetensorError: incomplete metadata", FailureClass.WEIGHTS),
        ("OSError: /m is not a local folder and is not a valid model identifier", FailureClass.MODEL_PATH),
        ("[rank1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)", FailureClass.NCCL),
        ("(EngineCore) ERROR Worker proc VllmWorker-0 died unexpectedly (exit code: -9)", FailureClass.WORKER_DIED),
        ("(EngineCore) ERROR [core.py:1] EngineCore encountered a fatal error.", FailureClass.ENGINE_DEAD),
        ("(EngineCore) ERROR [core.py:1] EngineCore failed to start.", FailureClass.START_FAILED),
        ("TimeoutError: RPC call to execute_model timed out.", FailureClass.HANG),
        ("Failed to initialize NVML: Unknown Error", FailureClass.NVML_LOST),
        ("ibv_reg_mr(0x7f) failed: Cannot allocate memory", FailureClass.MEMLOCK),
        ("RuntimeError: /dev/shm/nccl-abc: No space left on device", FailureClass.SHARED_MEMORY),
    ],
)
def test_failure_lines_give_their_class(line, failure):
    event = VLLM.read_log(line)
    assert event is not None
    assert event.failure is failure


def test_a_hang_line_says_that_something_waits():
    event = VLLM.read_log("(EngineCore) INFO [shm] No available shared memory broadcast block found in 60 seconds.")
    assert event is not None
    assert event.hang
    assert event.failure is None, "it also comes in long compilations, so it is no failure by itself"


@pytest.mark.parametrize(
    "line",
    [
        "INFO [logger.py:1] Received request cmpl-1: prompt: 'EngineDeadError: CUDA out of memory. Tried to allocate'",
        "INFO [api_utils.py:286] non-default args: {'model': 'x', 'note': 'EngineDeadError'}",
        'INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK',
        "",
        "x" * 100_000,
    ],
)
def test_lines_without_meaning_have_none(line):
    """What a client wrote must not be read as the engine's own words."""
    assert VLLM.read_log(line) is None


@pytest.mark.parametrize(
    "line",
    [
        "INFO [logger.py:71] Generated response chatcmpl-1: output: '[shutdown] API server: shutdown triggered'",
        "INFO [logger.py:71] Generated response chatcmpl-1: output: 'EngineDeadError', finish_reason: stop",
    ],
)
def test_what_a_model_says_about_logs_is_not_the_engines_own_word(line):
    assert VLLM.read_log(line) is None


@pytest.mark.parametrize("label", ["²", "9" * 5000, "", "-1", "NaN", "1e999"])
def test_any_label_may_stand_where_a_number_is_usual(label):
    cache = f'vllm:cache_config_info{{num_gpu_blocks="{label}",block_size="16"}} 1'
    reading = VLLM.read_metrics(f'vllm:num_requests_running{{engine="{label}"}} 1\n{cache}\n')
    assert [rank.rank for rank in reading.ranks] == [label]
    assert reading.kv_tokens is None


def test_a_stat_line_of_zeros_is_no_progress():
    """The API server writes it, so it survives a hung core, and a long prefill shows the same zeros."""
    text = "Engine 000: Avg prompt throughput: {} tokens/s, Avg generation throughput: {} tokens/s, Running: 1 reqs"
    moving, still = VLLM.read_log(text.format("0.0", "12.5")), VLLM.read_log(text.format("0.0", "0.0"))
    assert moving is not None
    assert moving.progress
    assert still is None


def test_each_rank_has_a_cache_of_its_own():
    """Data-parallel ranks: together they hold what all of them hold."""
    more = 'vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="500"} 1.0\n'
    assert VLLM.read_metrics(METRICS + more).kv_tokens == 24_000.0
