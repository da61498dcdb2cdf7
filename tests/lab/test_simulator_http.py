"""What the simulator answers: OpenAI's API in vLLM's words, probes, metrics, the developer mode."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.lab.simulator.harness import Simulator, start, stream, until
from tests.lab.simulator.ledger import Collector, EngineDead
from tests.lab.simulator.sequences import Output


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """One simulator for all tests that change nothing for good."""
    folder = tmp_path_factory.mktemp("simulator")
    flags = ["--served-model-name", "tiny", "other", "--max-model-len", "2048", "--enable-server-load-tracking"]
    spec = ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}', "--enable-mfu-metrics"]
    # 200 tokens a second: an answer of 1,800 lasts long enough to come in between
    with start(folder, *flags, *spec, VLLM_SERVER_DEV_MODE="1", SIM_SCALE="0.005", SIM_DECODE_TOK_S="1") as running:
        yield running


def test_probes_answer_as_they_do_for_real(sim: Simulator) -> None:
    assert [sim.get(path)[0] for path in ("/health", "/ping", "/load", "/version", "/nowhere")] == [200] * 4 + [404]
    assert sim.get("/health") == (200, "")
    assert sim.get("/version") == (200, '{"version":"0.32.0"}')


def test_models_lists_every_served_name(sim: Simulator) -> None:
    models = json.loads(sim.get("/v1/models")[1])["data"]
    assert [(m["id"], m["max_model_len"], m["root"]) for m in models] == [("tiny", 2048, "sim"), ("other", 2048, "sim")]


def test_a_completion_has_text_usage_and_reason(sim: Simulator) -> None:
    status, text = sim.post("/v1/completions", {"model": "tiny", "prompt": "one two", "max_tokens": 7})
    answer = json.loads(text)
    assert (status, answer["object"], answer["choices"][0]["finish_reason"]) == (200, "text_completion", "length")
    assert answer["usage"]["prompt_tokens"] == 2
    assert answer["usage"]["completion_tokens"] == 7
    assert len(answer["choices"][0]["text"].split()) == 7


def test_a_chat_ends_by_itself(sim: Simulator) -> None:
    body = {"messages": [{"role": "user", "content": "hello there"}]}
    answer = json.loads(sim.post("/v1/chat/completions", body)[1])
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["choices"][0]["message"]["role"] == "assistant"
    assert answer["usage"]["completion_tokens"] == 200


def test_n_and_lists_of_prompts_make_several_choices(sim: Simulator) -> None:
    body = {"prompt": [[1, 2, 3], [4, 5]], "n": 2, "max_tokens": 3}
    answer = json.loads(sim.post("/v1/completions", body)[1])
    assert [c["index"] for c in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"] == answer["usage"] | {"prompt_tokens": 5, "completion_tokens": 12}


def test_a_stream_ends_with_usage_and_done(sim: Simulator) -> None:
    with sim.client(max_tokens=4, stream_options={"include_usage": True}) as connection:
        events = stream(connection)
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == {"prompt_tokens": 10, "total_tokens": 14, "completion_tokens": 4}
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]][-1] == "length"
    assert len("".join(c["choices"][0]["text"] for c in chunks[:-1]).split()) == 4


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"model": "nope", "prompt": "x"}, 404, "The model `nope` does not exist. Valid aliases: tiny, other."),
        ({"prompt": ""}, 400, "Either prompt or prompt_embeds must be provided"),
        ({"sim_prompt_tokens": 2048}, 400, "maximum context length is 2048 tokens. However, your prompt contains at"),
    ],
)
def test_what_cannot_be_served_is_refused_in_vllms_words(
    sim: Simulator, body: dict[str, object], status: int, says: str
) -> None:
    got, text = sim.post("/v1/completions", body)
    assert (got, json.loads(text)["error"]["code"]) == (status, status)
    assert says in json.loads(text)["error"]["message"]


def test_a_token_is_four_characters_of_a_word(sim: Simulator) -> None:
    assert json.loads(sim.post("/tokenize", {"prompt": "four fourteen a"})[1])["count"] == 4


def test_a_repeated_prompt_is_in_the_cache(sim: Simulator) -> None:
    before = sim.value("prefix_cache_hits_total")
    for _ in range(2):
        sim.post("/v1/completions", {"sim_prompt_tokens": 161, "sim_prompt_key": "twice", "max_tokens": 1})
    assert sim.value("prefix_cache_hits_total") - before == 160


def test_connections_are_kept_and_closed_as_asked(sim: Simulator) -> None:
    with socket.create_connection(("127.0.0.1", sim.port), timeout=5) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 OK")
        connection.sendall(b"GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        answer = b""
        while part := connection.recv(4096):
            answer += part
        assert b"connection: close" in answer
        assert answer.endswith(b'{"version":"0.32.0"}')


def test_speculation_and_flops_are_counted(sim: Simulator) -> None:
    sim.post("/v1/completions", {"prompt": "x", "max_tokens": 50, "ignore_eos": True})
    drafts, accepted = sim.value("spec_decode_num_drafts_total"), sim.value("spec_decode_num_accepted_tokens_total")
    assert 0 < accepted < 2 * drafts
    assert sim.value("spec_decode_num_accepted_tokens_per_pos_total", position="0") > 0
    assert sim.value("estimated_flops_per_gpu_total") > 0


def test_pause_reaches_every_request_and_resume_lets_new_ones_in(sim: Simulator) -> None:
    with sim.client(max_tokens=1800) as connection:
        assert until(lambda: sim.running() == 1)
        assert sim.post("/pause?mode=abort&clear_cache=false")[0] == 200
        events = stream(connection)
        assert json.loads(events[-2])["choices"][0]["finish_reason"] == "abort"
    assert sim.running() == 0
    assert sim.get("/is_paused") == (200, '{"is_paused":true}')
    assert sim.post("/v1/completions", {"prompt": "x"})[0] == 503
    sim.post("/resume")
    assert sim.post("/v1/completions", {"prompt": "x"})[0] == 200


def test_sleep_is_shown_and_holds_requests_back(sim: Simulator) -> None:
    sim.post("/sleep?level=1")
    assert sim.get("/is_sleeping") == (200, '{"is_sleeping":true}')
    assert sim.value("engine_sleep_state", sleep_state="weights_offloaded") == 1
    with sim.client(max_tokens=3) as connection:
        assert sim.get("/load") == (200, '{"server_load":1}')
        sim.post("/wake_up")
        assert stream(connection)[-1] == "[DONE]"
    assert sim.value("engine_sleep_state", sleep_state="awake") == 1


def test_abort_requests_wants_json(sim: Simulator) -> None:
    assert sim.post("/abort_requests")[0] == 400
    with sim.client(max_tokens=1800):
        assert until(lambda: sim.running() == 1)
        assert sim.post("/abort_requests", {})[0] == 200
        assert until(lambda: sim.running() == 0)


def test_only_v1_asks_for_the_key(tmp_path: Path) -> None:
    with start(tmp_path, "--api-key", "secret") as locked:
        assert locked.get("/health")[0] == 200
        assert locked.get("/v1/models") == (401, '{"error":"Unauthorized"}')
        assert locked.post("/v1/completions", {"prompt": "x"}, Authorization="Bearer secret")[0] == 200
        assert locked.post("/v1/completions", {"prompt": "x"}, Authorization="Bearer wrong")[0] == 401


def test_the_metrics_text_parses(sim: Simulator) -> None:
    families = {f.name: f.type for f in text_string_to_metric_families(sim.get("/metrics")[1])}
    assert families["vllm:kv_cache_usage_perc"] == "gauge"
    assert families["vllm:generation_tokens"] == "counter"
    assert families["vllm:iteration_tokens_total"] == "histogram"
    assert families["http_request_size_bytes"] == "summary"


def series(text: str) -> set[str]:
    """Every series of the engine with its labels, values and the cache's configuration left out."""
    lines = [line for line in text.splitlines() if line.startswith(("vllm:", "# TYPE vllm:", "process_", "python_"))]
    return {line if line[0] == "#" else line.rpartition(" ")[0] for line in lines if "cache_config_info{" not in line}


@pytest.mark.shared
def test_metrics_have_the_form_of_the_recorded_engine(tmp_path: Path, shared: Path) -> None:
    recorded = (shared / "captures/vllm/metrics-after-load.txt").read_text()
    with start(tmp_path, "--served-model-name", "tiny", "--max-model-len", "2048") as plain:
        text = plain.get("/metrics")[1]
    platform = re.compile(r"python_info{.*")
    assert series(platform.sub("", text)) == series(platform.sub("", recorded))
    assert 45_000 < len(text) < 60_000
    names = [re.sub(r"^# HELP (\S+) .*", r"\1", line) for line in text.splitlines() if line.startswith("# HELP vllm:")]
    assert names == re.findall(r"^# HELP (vllm:\S+)", recorded, re.MULTILINE)


@pytest.mark.shared
def test_several_ranks_have_the_form_of_the_recorded_ones(tmp_path: Path, shared: Path) -> None:
    recorded = (shared / "captures/vllm/metrics-dp2.txt").read_text()
    flags = ["--served-model-name", "tiny", "--max-model-len", "2048", "--data-parallel-size", "2"]
    with start(tmp_path, *flags) as ranks:
        ranks.post("/v1/completions", {"prompt": "x"})
        assert series(ranks.get("/metrics")[1]) == series(recorded)


async def test_what_a_slow_client_has_not_taken_becomes_one_output() -> None:
    collector = Collector()
    for number in range(1000):
        collector.put(Output("a", 2, "length" if number == 999 else "", number == 0, number, 0.0, 0, 0))
    output = await collector.take()
    assert (output.tokens, output.reason) == (2000, "length")


async def test_a_dead_engine_is_told_after_what_it_had_said() -> None:
    collector = Collector()
    collector.put(Output("a", 2, "", True, 0.0, 0.0, 0, 0))
    collector.die(EngineDead("gone"))
    assert (await collector.take()).tokens == 2
    with pytest.raises(EngineDead, match="gone"):
        await collector.take()
