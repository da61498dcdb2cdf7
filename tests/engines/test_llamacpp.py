"""llama.cpp: flags, metrics, log lines, and what real start-up failures of it say."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.engines.llamacpp import LlamaCpp
from agent.engines.model import Command, FailureClass, Phase, Task
from agent.errors import InvalidInput

LLAMA = LlamaCpp()


def launch(line: str, **env: str):
    return LLAMA.describe(Command(tuple(line.split()), env))


def test_metrics_only_where_the_launch_switches_them_on():
    assert launch("llama-server -m x.gguf").metrics is None
    assert launch("llama-server -m x.gguf --metrics").metrics == "/metrics"
    assert launch("llama-server -m x.gguf", LLAMA_ARG_ENDPOINT_METRICS="1").metrics == "/metrics"


def test_flags_and_environment_are_read():
    engine = launch("llama-server -m x.gguf -a tiny,other -c 131072 -np 2 -b 512", LLAMA_ARG_PORT="81")
    assert (engine.port, engine.served_model, engine.max_model_len) == (81, "tiny", 131072)
    assert (engine.max_num_seqs, engine.chunk_tokens) == (2, 512)
    assert launch("llama-server -m x.gguf --embeddings").task is Task.EMBED
    assert launch("llama-server -m x.gguf --api-key k").guarded


def test_it_is_never_scraped_faster_than_every_two_seconds():
    """Faster, an abandoned request that does not stream is kept alive."""
    assert LLAMA.traits.min_period == 2.0


def test_decode_calls_are_its_step_counter(shared: Path):
    reading = LLAMA.read_metrics((shared / "captures/llamacpp/metrics-after-load.txt").read_text())
    (rank,) = reading.ranks
    assert (rank.running, rank.waiting, rank.progress["decodes"]) == (1.0, 0.0, 37148.0)
    assert rank.steps == ("decodes",)
    assert reading.blind == ("kv_usage",)


def test_what_is_no_metrics_is_an_error_of_our_family():
    with pytest.raises(InvalidInput):
        LLAMA.read_metrics('{"error":{"code":501,"message":"This server does not support metrics endpoint."}}')


@pytest.mark.parametrize(("status", "alive"), [(200, True), (501, None), (503, None)])
def test_slots_are_a_loop_ping_only_where_they_are_on(status, alive):
    assert LLAMA.read_pong(status, "[]", 0.0).alive is alive


NEW = '[{"id_task": 7, "n_prompt_tokens_processed": 9, "next_token": [{"n_decoded": 4}]}, {"id_task": -1}]'
OLD = '[{"id_task": 7, "n_prompt_tokens_processed": 9, "next_token": {"n_decoded": 4}}, {"id_task": -1}]'


@pytest.mark.parametrize("text", [NEW, OLD])
def test_slots_say_where_every_request_stands(text):
    assert LLAMA.read_pong(200, text, 0.0).position == "7:9:4 -1:None:None"
    assert LLAMA.read_pong(200, text.replace("4}", "5}"), 0.0).position != LLAMA.read_pong(200, text, 0.0).position


def test_recorded_slots_are_read(shared: Path):
    text = (shared / "captures/llamacpp/slots-after-load.json").read_text()
    assert LLAMA.read_pong(200, text, 0.0).position.startswith("32674:1:4824 ")


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[" * 100_000, "null", '"x"'])
def test_what_is_no_list_of_slots_tells_no_position(text):
    assert LLAMA.read_pong(200, text, 0.0).position is None


def first_failure(path: Path) -> FailureClass | None:
    events = [event for line in path.read_text().splitlines() if (event := LLAMA.read_log(line))]
    return next((event.failure for event in events if event.failure), None)


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("startfail-badmodel", FailureClass.MODEL_PATH),
        ("startfail-flag", FailureClass.BAD_FLAG),
        ("startfail-port", FailureClass.PORT),
        ("startfail-trunc", FailureClass.WEIGHTS),
    ],
)
def test_real_start_up_failures_are_told_apart(shared: Path, name, failure):
    assert first_failure(shared / f"captures/llamacpp/{name}.log") is failure


@pytest.mark.parametrize("name", ["server-l1", "server-l2"])
def test_a_real_run_goes_through_its_phases_and_has_no_failure(shared: Path, name):
    lines = (shared / f"captures/llamacpp/{name}.log").read_text().splitlines()
    events = [event for line in lines if (event := LLAMA.read_log(line))]
    phases = list(dict.fromkeys(event.phase for event in events if event.phase))
    assert phases[0] is Phase.BOOT
    assert phases[-1] is Phase.READY
    assert not [event for event in events if event.failure]
    assert any(event.progress for event in events)
