"""TensorRT-LLM, TabbyAPI and any other OpenAI server: what little they show, and that they say so."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from agent.engines.dialect import TAG, aimed, has_token, join
from agent.engines.lines import is_echo
from agent.engines.model import Command, EngineKind, EngineLaunch, Phase, Pong, Task
from agent.engines.openai import OpenAi
from agent.engines.registry import DIALECTS, engine_of
from agent.engines.tabbyapi import TabbyApi
from agent.engines.trtllm import TrtLlm
from agent.errors import AgentError, InvalidInput

TRTLLM, TABBY, OPENAI = TrtLlm(), TabbyApi(), OpenAi()
ROW = {
    "iter": 41,
    "numActiveRequests": 2,
    "numQueuedRequests": 1,
    "kvCacheStats": {"usedNumBlocks": 25, "maxNumBlocks": 100, "tokensPerBlock": 32},
}


def test_trtllm_metrics_are_known_to_be_on_only_with_an_options_file():
    assert TRTLLM.describe(Command(("trtllm-serve", "m"))).metrics is None
    assert TRTLLM.describe(Command(("trtllm-serve", "m", "--extra_llm_api_options", "o.yaml"))).metrics == "/metrics"


def test_trtllm_iterations_are_progress():
    reading = TRTLLM.read_metrics(json.dumps([{**ROW, "iter": 40}, ROW]))
    (rank,) = reading.ranks
    assert (rank.running, rank.waiting, rank.kv_usage, rank.progress["iter"]) == (2.0, 1.0, 0.25, 41.0)
    assert (rank.steps, reading.kv_tokens) == (("iter",), 3200.0)


@pytest.mark.parametrize(("active", "completed", "running"), [(2, 0, 2.0), (2, 1, 1.0), (1, 1, 0.0), (0, 1, 0.0)])
def test_trtllm_requests_that_an_iteration_ended_run_no_more(active, completed, running):
    """They are counted before it runs: the last entry before an idle night still counts the request that it ended."""
    row = {**ROW, "numActiveRequests": active, "numCompletedRequests": completed}
    assert TRTLLM.read_metrics(json.dumps([row])).ranks[0].running == running


@pytest.mark.parametrize("number", ["NaN", "1e999", '"3"', "null", "[1]", "1" + "0" * 400])
def test_trtllm_numbers_that_are_none_are_unknown(number):
    """One that is not equal to itself would pass for progress at every look."""
    (rank,) = TRTLLM.read_metrics(f'[{{"iter": 1, "numQueuedRequests": {number}}}]').ranks
    assert rank.waiting in (None, 3.0)


def test_trtllm_with_no_iteration_since_the_last_read_has_no_rank_and_is_not_blind():
    assert TRTLLM.read_metrics("[]").ranks == ()
    assert TRTLLM.read_metrics("[]").blind == ()


@pytest.mark.parametrize("text", ["[1]", '[{"no": "iteration"}]', "[", "", "<html>"])
def test_trtllm_garbage_is_an_error_of_our_family(text):
    with pytest.raises(InvalidInput):
        TRTLLM.read_metrics(text)


def test_trtllm_prometheus_text_has_no_step_counter():
    reading = TRTLLM.read_metrics("trtllm_num_requests_running 2\ntrtllm_num_requests_waiting 0\n")
    assert (reading.ranks[0].running, reading.blind) == (2.0, ("step_counter",))


def test_tabby_guards_itself_unless_told_otherwise():
    assert TABBY.describe(Command(("tabbyapi",))).guarded
    assert not TABBY.describe(Command(("tabbyapi", "--disable-auth", "true"))).guarded


@pytest.mark.parametrize(
    "line",
    [
        "Metrics (ID: ab12): 120 tokens generated in 4.1 seconds (Queue: 0.0 s)",
        # wrapped, as it stands in a container's log
        "2026-05-16 04:01:40.123 INFO:     Metrics (ID: 63a7b1c0d2e4f5a6978812ab34cd56ef): 120",
    ],
)
def test_tabby_shows_progress_in_finish_lines_alone(line):
    event = TABBY.read_log(line)
    assert event is not None
    assert event.progress


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("2026-09-01 09:39:58.340 INFO:     exllamav3 version: 1.4.5", Phase.BOOT),
        ("2026-09-01 09:39:59.933 INFO:     Loading model:", Phase.LOAD),
        ("2026-09-01 09:40:59.933 INFO:     Model successfully loaded.", Phase.WARM_UP),
        ("2026-09-01 09:41:59.933 INFO:     Developer documentation:", Phase.READY),
    ],
)
def test_the_steps_of_a_start_of_tabbys_are_read_in_wrapped_lines(line, phase):
    event = TABBY.read_log(line)
    assert event is not None
    assert event.phase is phase


@pytest.mark.parametrize("dialect", [TABBY, OPENAI], ids=lambda dialect: dialect.kind)
def test_blind_engines_have_no_metrics(dialect):
    with pytest.raises(InvalidInput):
        dialect.read_metrics("anything 1\n")
    assert dialect.pings(EngineLaunch(dialect.kind)) == ()


def test_tgi_and_its_like_are_found_by_their_programs():
    found = engine_of(Command(("lmdeploy", "serve", "api_server", "org/m", "--server-port", "99")))
    assert found is not None
    assert (found[1].port, found[1].health, found[1].metrics) == (99, "/v1/models", None)


# ── canaries ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.kind)
def test_canaries_are_unique_tagged_and_ask_one_token(dialect):
    launch = EngineLaunch(dialect.kind, served_model="m")
    first, second = dialect.canary(launch, "n1"), dialect.canary(launch, "n2")
    assert first.body != second.body
    assert TAG in json.dumps(first.body)
    assert first.body is not None
    assert (first.method, first.body["max_tokens"], first.body["model"]) == ("POST", 1, "m")


@pytest.mark.parametrize(
    ("task", "path"),
    [(Task.GENERATE, "/v1/completions"), (Task.EMBED, "/v1/embeddings"), (Task.RERANK, "/v1/rerank")],
)
def test_a_canary_fits_the_models_task(task, path):
    assert TABBY.canary(EngineLaunch(EngineKind.TABBYAPI, task=task), "n").path == path


@pytest.mark.parametrize(
    ("status", "text", "proof"),
    [
        (200, '{"choices": [{"text": ""}], "usage": {"completion_tokens": 1}}', True),
        (200, '{"choices": [{"text": "x"}]}', True),
        (200, '{"choices": [{"message": {"role": "assistant", "content": "y"}}]}', True),
        (200, '{"choices": [{"message": {"role": "assistant", "content": ""}}]}', False),
        (200, '{"choices": [{"text": ""}], "usage": {"completion_tokens": 0}}', False),
        (200, '{"choices": [{"text": "", "finish_reason": "stop"}], "usage": {"completion_tokens": 0}}', True),
        (200, '{"choices": [{"text": "", "finish_reason": "abort"}], "usage": {"completion_tokens": 0}}', False),
        (200, '{"data": [{"embedding": [0.1]}]}', True),
        (200, '[{"score": 0.5, "index": 0}]', True),
        (200, '[{"message": "no"}]', False),
        (200, '{"results": [{"relevance_score": 1}]}', True),
        (200, '{"error": {"message": "EngineDeadError"}}', False),
        (200, "data: [DONE]", False),
        (200, "[]", False),
        (500, '{"usage": {"completion_tokens": 1}}', False),
    ],
)
def test_only_what_the_scheduler_made_is_proof(status, text, proof):
    assert has_token(status, text) is proof


def test_several_pings_are_as_alive_as_the_worst():
    assert join((Pong(True), Pong(None))).alive is True
    assert join((Pong(True), Pong(False))).alive is False
    assert join((Pong(None),)).alive is None
    assert join((Pong(True, position="0:7:3"), Pong(True))).position == "0:7:3"
    assert join((Pong(True, age=3.0), Pong(True, asleep=True, age=9.0))) == Pong(True, asleep=True, age=9.0)


@pytest.mark.parametrize(
    ("line", "echo"),
    [
        ('INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 503 Service Unavailable', True),
        ('INFO:     127.0.0.1:1 - "GET /metrics HTTP/1.1" 200 OK', True),
        ('INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK', False),
        ("Waiting for 1 local, 0 remote core engine proc(s) to start.", True),
        ("Loading safetensors checkpoint shards: 10% Completed", False),
    ],
)
def test_lines_that_the_agents_own_probes_cause_are_no_sign_of_life(line, echo):
    assert is_echo(line) is echo


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.kind)
@pytest.mark.parametrize("text", ["\x00" * 10, "{" * 5000, "[" * 100_000, 'a{b="' * 1000, "é" * 100, "1e999 {} NaN"])
def test_garbage_is_never_more_than_an_error_of_our_family(dialect, text):
    with suppress(AgentError):
        assert dialect.read_metrics(text).ranks is not None
    dialect.read_log(text)
    dialect.read_pong(200, text, 0.0)
    has_token(200, text)


@pytest.mark.parametrize(
    ("rank", "header"), [("1", "1"), ("12", "12"), ("3/tp2", "3"), ("", None), ("prefill", None), ("²/x", None)]
)
def test_a_canary_names_the_rank_that_is_to_answer(rank, header):
    request = aimed(TABBY.canary(EngineLaunch(EngineKind.TABBYAPI), "n"), rank)
    assert request.headers.get("X-data-parallel-rank") == header
