"""SGLang: what proves progress in which version, and what work looks like in a lone prefill."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.engines.model import Command, FailureClass, Phase
from agent.engines.sglang import _FRONTEND, _SCHEDULER, SGLang, age_of
from agent.verify.books import seen

SGLANG = SGLang()


def launch(line: str):
    return SGLANG.describe(Command(tuple(line.split())))


def metrics(**values: float) -> str:
    labels = 'engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"'
    return "".join(f"sglang:{name}{{{labels}}} {value}\n" for name, value in values.items())


def test_flags_are_read_in_every_spelling():
    engine = launch("python -m sglang.launch_server --model-path m --tp 4 --pp-size 2 --enable-metrics --port 8")
    assert (engine.port, engine.metrics, engine.tensor_parallel, engine.pipeline_parallel) == (8, "/metrics", 4, 2)
    assert launch("python -m sglang.launch_server --model-path m").metrics is None


@pytest.mark.parametrize(("flag", "chunked"), [("", True), ("--chunked-prefill-size 8192", True),
                                              ("--chunked-prefill-size -1", False)])  # fmt: skip
def test_a_prefill_in_one_step_is_known_from_the_launch(flag: str, chunked: bool):
    assert launch(f"python -m sglang.launch_server --model-path m {flag}").chunked is chunked


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        ("Watchdog timeout (self.watchdog_timeout=300)", FailureClass.HANG),
        ("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", FailureClass.HANG),
        ("Scheduler watchdog timeout (self.watchdog_timeout=30.0, self.soft=True)", None),
    ],
)
def test_a_soft_watchdog_is_a_sign_and_no_end(line: str, failure: FailureClass | None):
    event = SGLANG.read_log(line)
    assert event is not None
    assert (event.failure, event.hang) == (failure, True)


@pytest.mark.parametrize(("status", "alive"), [(404, None), (401, None), (503, False), (500, False)])
def test_a_ping_that_was_turned_away_says_nothing_about_the_scheduler(status: int, alive: bool | None):
    assert SGLANG.read_pong(status, "{}", 0.0).alive is alive


def test_attention_ranks_share_the_tensor_parallel_cards():
    assert launch("sglang serve --model m --tp 8 --dp 8 --enable-dp-attention").gpus_needed == 8
    assert launch("sglang serve --model m --tp 2 --dp-size 4").gpus_needed == 8


def test_a_lone_prefill_is_work_though_nothing_runs_or_waits():
    (rank,) = SGLANG.read_metrics(metrics(num_running_reqs=0, num_queue_reqs=0, num_used_tokens=8192)).ranks
    assert rank.work == 1.0
    (idle,) = SGLANG.read_metrics(metrics(num_running_reqs=0, num_queue_reqs=0, num_used_tokens=0)).ranks
    assert idle.work == 0.0


def test_the_newer_versions_have_a_step_counter_and_the_older_say_that_they_have_none():
    old = SGLANG.read_metrics(metrics(num_running_reqs=1, num_queue_reqs=0, token_usage=0.1))
    assert "step_counter" in old.blind
    text = metrics(num_running_reqs=1) + 'sglang:realtime_tokens_total{mode="decode",tp_rank="0"} 5\n'
    (rank,) = SGLANG.read_metrics(text).ranks
    assert rank.steps == ("realtime.decode",)


def test_tokens_are_counted_step_by_step_once_a_rank():
    """Each scheduler of a tensor-parallel group counts the same ones."""
    counter = 'sglang:realtime_tokens_total{{mode="{}",tp_rank="{}"}} {}\n'
    rows = [("decode", 0, 70), ("prefill_compute", 0, 900), ("prefill_cache", 0, 8000), ("decode", 1, 70)]
    first, second = SGLANG.read_metrics("".join(counter.format(*row) for row in rows)).ranks
    assert (first.decoded, first.made, first.prefilled) == (70.0, 70.0, 900.0)
    assert (first.echo, second.echo) == (False, True)


@pytest.mark.parametrize(
    ("labels", "expect"),
    [
        ([("", "0"), ("", "1"), ("", "10"), ("", "2")], ["0"]),
        ([("0", "0"), ("0", "1"), ("1", "10"), ("1", "2")], ["0", "1/tp2"]),
        ([("0", "0"), ("1", "1")], ["0", "1/tp1"]),
        ([("0", "0"), ("1", "0")], ["0", "1"]),
    ],
    ids=["tensor parallel", "two attention ranks of two", "two of one", "data parallel"],
)
def test_of_schedulers_that_count_the_same_one_is_counted(labels: list[tuple[str, str]], expect: list[str]):
    """All write with --enable-metrics-for-all-schedulers."""
    row = 'sglang:{}{{dp_rank="{}",tp_rank="{}"}} {}\n'
    text = "".join(
        row.format("num_running_reqs", dp, tp, 3) + row.format("max_total_num_tokens", dp, tp, 1000)
        for dp, tp in labels
    )
    reading = SGLANG.read_metrics(text)
    assert [rank.rank for rank in reading.ranks if not rank.echo] == expect
    assert reading.kv_tokens == 1000.0 * len(expect)
    assert seen(reading).work == 3.0 * len(expect)


def test_ranks_stay_apart_and_the_front_ends_counters_prove_no_ranks_progress():
    text = (
        'sglang:num_running_reqs{dp_rank="0"} 1\nsglang:num_running_reqs{dp_rank="1"} 2\n'
        'sglang:generation_tokens_total{model_name="m"} 99\n'
    )
    first, second = SGLANG.read_metrics(text).ranks
    assert (first.rank, second.rank) == ("0", "1")
    assert "generation_tokens" not in first.progress
    assert "generation_tokens" not in second.progress
    assert first.generation_tokens == 99.0


def test_paused_by_an_operator_is_asleep():
    (rank,) = SGLANG.read_metrics(metrics(num_running_reqs=0, num_queue_reqs=3, num_paused_reqs=2)).ranks
    assert rank.asleep


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ('{"loads": [{"timestamp": 90.0}, {"timestamp": 95.0}]}', 10.0),
        ('[{"timestamp": 99.0}]', 1.0),
        ('{"timestamp": 100.5}', 0.0),
        ("{}", None),
        ("nonsense", None),
    ],
)
def test_the_oldest_heartbeat_counts(text, age):
    assert age_of(text, 100.0) == age


def test_the_names_are_those_of_the_source(shared: Path):
    """Every family that is asked for exists in 0.5.23, but for the ones that older versions alone have."""
    older = {"sglang:gpu_execution_seconds_total"}
    known = set((shared / "captures/sglang-0.5.23-metric-names-from-source.txt").read_text().split())
    asked = {name.removesuffix("_count") for name in (*_SCHEDULER, *_FRONTEND)}
    assert asked - known <= older


@pytest.mark.parametrize(
    ("line", "phase", "ratio", "failure"),
    [
        ("[2026-10-01 10:00:00] server_args=ServerArgs(model_path='m')", Phase.BOOT, None, None),
        ("[2026-10-01 10:00:00 TP0] Load weight begin. avail mem=78 GB", Phase.LOAD, None, None),
        ("Multi-thread loading shards:  50% 3/6", Phase.LOAD, 0.5, None),
        (
            "[2026-10-01 10:00:00 TP0] max_total_num_tokens=200000, chunked_prefill_size=8192",
            Phase.KV_CACHE,
            None,
            None,
        ),
        ("Capturing batches (bs=8 avail_mem=3 GB):  75%|###", Phase.GRAPHS, 0.75, None),
        ("[2026-10-01 10:00:00] The server is fired up and ready to roll!", Phase.READY, None, None),
        ("Scheduler hit an exception: Traceback", None, None, FailureClass.ENGINE_DEAD),
        ("Watchdog: watchdog timeout (self.watchdog_timeout=300)", None, None, FailureClass.HANG),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            None,
            None,
            FailureClass.GPU_OOM,
        ),
    ],
)
def test_log_lines(line, phase, ratio, failure):
    event = SGLANG.read_log(line)
    assert event is not None
    assert (event.phase, event.ratio, event.failure) == (phase, ratio, failure)


def test_a_drain_says_so():
    event = SGLANG.read_log("[2026-10-01 10:00:00] Gracefully exiting... Remaining number of requests 3")
    assert event is not None
    assert event.draining


@pytest.mark.parametrize(
    ("line", "detached"),
    [
        ('INFO:     127.0.0.1:40000 - "POST /v1/responses HTTP/1.1" 200 OK', True),
        ('[2026-10-01 10:00:00] INFO:     10.0.0.7:1 - "POST /v1/responses HTTP/1.1" 200 OK', True),
        ('INFO:     127.0.0.1:40000 - "POST /v1/responses HTTP/1.1" 400 Bad Request', False),
        ('INFO:     127.0.0.1:40000 - "POST /v1/responses/resp_1/cancel HTTP/1.1" 200 OK', False),
        ('INFO:     127.0.0.1:40000 - "POST /v1/chat/completions HTTP/1.1" 200 OK', False),
        ("Receive: obj=GenerateReqInput(text='\"POST /v1/responses HTTP/1.1\" 200')", False),
    ],
)
def test_only_an_answered_response_may_run_on_without_a_client(line, detached):
    event = SGLANG.read_log(line)
    assert (event is not None and event.detached) is detached
