"""Every fault shows what the real engine was seen to show, and heals where it can."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.procs import name
from tests.lab.simulator.harness import REFUSED, Simulator, start, stream, until

_LONG = ["--max-model-len", "524288", "--enable-server-load-tracking"]


AT_ONCE_S = 5.0
"""On a busy machine too, and long before a request of 100,000 tokens ends by itself (17 s)."""
FLAGS_OF = {"vllm": (), "sglang": ("--enable-metrics",), "llamacpp": ("--metrics",)}


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[Simulator]:
    """A simulator of the test's own; a long prompt takes it seconds, in which a test can look several times."""
    with start(tmp_path, *_LONG, SIM_PREFILL_TOK_S="1000") as running:
        yield running


def still(sim: Simulator, seconds: float = 0.25) -> bool:
    """Whether nothing in the engine's metrics moves for so many real seconds (25 of the engine)."""
    before = [line for line in sim.get("/metrics")[1].splitlines() if line.startswith("vllm:")]
    time.sleep(seconds)
    return before == [line for line in sim.get("/metrics")[1].splitlines() if line.startswith("vllm:")]


def flows(sim: Simulator) -> bool:
    """Whether tokens are generated."""
    before = sim.generated()
    return until(lambda: sim.generated() > before)


def test_a_long_prefill_moves_the_gauge_and_no_token(sim: Simulator) -> None:
    seen = []
    with sim.client(sim_prompt_tokens=400_000, max_tokens=1):
        assert until(lambda: sim.running() == 1 and sim.value("kv_cache_usage_perc") > 0)
        for _ in range(4):
            seen.append((sim.value("kv_cache_usage_perc"), sim.value("prompt_tokens_total"), sim.generated()))
            assert until(lambda: sim.value("kv_cache_usage_perc") > seen[-1][0])
        assert {(prompt, generated) for _, prompt, generated in seen} == {(0, 0)}
        assert until(lambda: sim.value("prompt_tokens_total") == 400_000)


def test_who_hangs_up_frees_the_request_and_is_not_counted(sim: Simulator) -> None:
    connection = sim.client(max_tokens=100_000)
    assert until(lambda: sim.running() == 1)
    connection.close()
    assert until(lambda: sim.running() == 0, within=AT_ONCE_S)
    assert sim.value("kv_cache_usage_perc") == 0
    assert sum(sim.value("request_success_total", finished_reason=r) for r in ("stop", "length", "abort")) == 0


def test_a_stall_freezes_everything_but_http(sim: Simulator) -> None:
    with sim.client(max_tokens=100_000), sim.client(max_tokens=100_000):
        assert until(lambda: sim.running() == 2)
        sim.fault("stall")
        assert until(lambda: still(sim))
        with sim.client(max_tokens=5):
            assert (sim.running(), sim.value("num_requests_waiting"), sim.get("/health")[0]) == (2, 0, 200)
            assert sim.get("/load") == (200, '{"server_load":3}')
        sim.fault("clear")
        assert flows(sim)


def test_a_stall_may_heal_by_itself(sim: Simulator) -> None:
    with sim.client(max_tokens=100_000):
        assert until(lambda: sim.running() == 1)
        sim.fault("stall", for_s=300)
        assert until(lambda: still(sim))
        assert flows(sim)
        assert sim.state()["faults"] == []


def test_a_stall_while_idle_looks_like_a_healthy_idle_engine(sim: Simulator) -> None:
    sim.fault("stall_idle")
    with sim.client(max_tokens=5) as connection:
        assert still(sim)
        assert (sim.running(), sim.value("num_requests_waiting"), sim.get("/health")[0]) == (0, 0, 200)
        assert sim.get("/load") == (200, '{"server_load":1}')
        sim.fault("clear")
        assert stream(connection)[-1] == "[DONE]"


def test_a_hanging_worker_is_told_each_minute_and_ends_in_exit_0(tmp_path: Path) -> None:
    with start(tmp_path, "-tp", "2", VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS="150") as sim, sim.client(max_tokens=30_000):
        assert until(lambda: sim.running() == 1)
        sim.fault("worker_hang")
        assert sim.wait() == 0
        assert sim.log().count("No available shared memory broadcast block found in 60 seconds") == 2
        assert "TimeoutError: RPC call to execute_model timed out." in sim.log()


def test_a_held_zombie_keeps_its_cache_and_only_the_scheduler_can_let_it_go(tmp_path: Path) -> None:
    with start(tmp_path, *_LONG, VLLM_SERVER_DEV_MODE="1") as sim:
        connection = sim.client(sim_prompt_tokens=30_000, max_tokens=100_000)
        assert until(lambda: sim.generated() > 0)
        sim.fault("zombie")
        connection.close()
        assert until(lambda: still(sim))
        assert (sim.running(), sim.value("kv_cache_usage_perc") > 0) == (1, True)
        assert sim.post("/v1/completions", {"prompt": "canary", "max_tokens": 1})[0] == 200
        sim.post("/abort_requests", {})
        assert not until(lambda: sim.running() == 0, within=0.2)
        sim.post("/pause?mode=abort&clear_cache=false")
        sim.post("/resume")
        assert until(lambda: sim.running() == 0, within=AT_ONCE_S)


def test_a_burning_zombie_goes_on_and_a_narrow_abort_ends_it(tmp_path: Path) -> None:
    with start(tmp_path, *_LONG, VLLM_SERVER_DEV_MODE="1") as sim:
        sim.fault("zombie_burning")
        sim.client(max_tokens=100_000).close()
        assert until(lambda: sim.running() == 1)
        assert flows(sim)
        assert [s["client"] for s in sim.state()["sequences"]] == [False]
        sim.post("/abort_requests", {})
        assert until(lambda: sim.running() == 0, within=AT_ONCE_S)


def test_clear_lets_zombies_go(sim: Simulator) -> None:
    for kind in ("zombie_held", "zombie_burning"):
        connection = sim.client(max_tokens=100_000)
        assert until(lambda: sim.running() == 1)
        sim.fault(kind)
        connection.close()
        assert not until(lambda: sim.running() == 0, within=0.2)
        sim.fault("clear")
        assert until(lambda: sim.running() == 0, within=AT_ONCE_S)


def test_stale_gauges_drop_with_the_next_request(sim: Simulator) -> None:
    sim.fault("stale_gauge")
    connection = sim.client(max_tokens=100_000)
    assert until(lambda: sim.running() == 1)
    connection.close()
    assert not until(lambda: sim.running() == 0, within=0.2)
    assert sim.post("/v1/completions", {"prompt": "canary", "max_tokens": 1})[0] == 200
    assert until(lambda: sim.running() == 0)


def test_a_dead_core_means_503_then_exit_0(tmp_path: Path) -> None:
    # in a slower time: it is gone 4.5 of its seconds later
    slow = start(tmp_path, SIM_SCALE="0.3", SIM_START_S="1", SIM_BOOT_S="0.1")
    with slow as sim, sim.client(max_tokens=9999) as connection:
        assert until(lambda: sim.running() == 1)
        sim.fault("exit0")
        assert until(lambda: sim.get("/health")[0] == 503)
        assert sim.get("/metrics")[0] == 200
        assert sim.running() == 1
        events = stream(connection)
        assert "EngineCore encountered an issue" in json.loads(events[-2])["error"]["message"]
        assert events[-1] == "[DONE]"
        connection.close()
        assert until(lambda: sim.get("/health")[0] == REFUSED)
        assert sim.wait() == 0
        assert "EngineDeadError" in sim.log()


def test_a_server_that_stays_says_503_for_ever(sim: Simulator) -> None:
    sim.fault("health_503_keepalive")
    assert until(lambda: sim.get("/health")[0] == 503)
    assert not until(lambda: sim.process.poll() is not None, within=0.3)
    status, text = sim.post("/v1/completions", {"prompt": "x"})
    assert (status, json.loads(text)["error"]["type"]) == (500, "InternalServerError")


def test_out_of_memory_names_itself_and_ends_in_exit_0(sim: Simulator) -> None:
    sim.fault("oom")
    assert sim.wait() == 0
    assert "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate" in sim.log()


@pytest.mark.parametrize("kind", ["oom", "exit0"])
def test_a_death_that_was_set_before_the_start_comes_after_it(tmp_path: Path, kind: str) -> None:
    with start(tmp_path, wait=False, SIM_FAULT=kind) as early:
        assert early.wait() == 0
        assert "Application startup complete." in early.log()


@pytest.mark.parametrize(("arg", "code"), [("3", 3), ("137", -9), ("143", -15)])
def test_an_exit_has_the_code_that_was_asked_for(sim: Simulator, arg: str, code: int) -> None:
    sim.post("/sim/fault", {"kind": "exit", "arg": arg})
    assert sim.wait() == code


def test_metrics_can_be_missing_or_hang(sim: Simulator) -> None:
    sim.fault("metrics_404")
    assert sim.get("/metrics")[0] == 404
    sim.fault("clear")
    sim.fault("metrics_hang")
    assert sim.get("/metrics", timeout=0.2)[0] == REFUSED
    assert sim.get("/health")[0] == 200
    sim.fault("clear")
    assert sim.get("/metrics")[0] == 200


def test_a_slow_decode_is_slow(sim: Simulator) -> None:
    def pace() -> float:
        before = sim.generated()
        time.sleep(0.2)
        return sim.generated() - before

    with sim.client(max_tokens=100_000):
        assert until(lambda: sim.running() == 1)
        usual = max(pace() for _ in range(3))
        sim.fault("slow_decode", "20")
        assert until(lambda: pace() < usual / 5)


def test_a_model_without_a_cache_shows_none(sim: Simulator) -> None:
    sim.fault("kv_flat")
    with sim.client(max_tokens=100_000):
        assert until(lambda: sim.generated() > 100)
        assert sim.value("kv_cache_usage_perc") == 0


def test_a_file_sets_and_heals_faults(tmp_path: Path) -> None:
    file = tmp_path / "faults"
    with start(tmp_path, SIM_CONTROL_FILE=str(file)) as sim:
        file.write_text("metrics_404\n")
        assert until(lambda: sim.get("/metrics")[0] == 404)
        file.write_text("")
        assert until(lambda: sim.get("/metrics")[0] == 200)


def test_what_is_no_fault_is_refused(sim: Simulator) -> None:
    assert sim.post("/sim/fault", {"kind": "flood"})[0] == 400
    assert sim.post("/sim/fault", {})[0] == 400
    assert sim.state()["faults"] == []


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llamacpp"])
def test_a_health_path_that_hangs_leaves_the_rest_alone(tmp_path: Path, engine: str) -> None:
    with start(tmp_path, *FLAGS_OF[engine], engine=engine) as sim:
        sim.fault("health_hang")
        assert sim.get("/health", timeout=0.3)[0] == REFUSED
        assert sim.get("/metrics")[0] == 200


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llamacpp"])
def test_counters_can_begin_anew(tmp_path: Path, engine: str) -> None:
    counted = {"vllm": "generation_tokens_total", "sglang": "generation_tokens_total", "llamacpp": "n_decode_total"}
    with start(tmp_path, *FLAGS_OF[engine], engine=engine) as sim:
        sim.post("/v1/completions", {"prompt": "a", "max_tokens": 9})
        assert until(lambda: sim.value(counted[engine]) >= 9)
        sim.fault("counters_reset")
        assert sim.value(counted[engine]) == 0


def test_a_compiler_works_until_it_is_healed(sim: Simulator) -> None:
    def names() -> set[str]:
        return {name(pid) for pid in sim.cores()}

    sim.fault("compile")
    assert until(lambda: "ptxas" in names())
    sim.fault("clear", "compile")
    assert "ptxas" not in names()


def test_memory_is_taken_no_further_than_asked(sim: Simulator) -> None:
    def peak() -> int:
        status = Path(f"/proc/{sim.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0])

    before = peak()
    sim.fault("eat_memory", "32")
    assert before + 30_000 < peak() < before + 60_000
    assert sim.get("/health")[0] == 200


def test_a_line_can_be_put_into_the_log(sim: Simulator) -> None:
    sim.fault("say", "Failed to initialize NVML: Unknown Error")
    assert "\nFailed to initialize NVML: Unknown Error\n" in sim.log()
