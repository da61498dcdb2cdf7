"""The simulator starts, ends and falls apart as the real engine does: ports, logs, signals, orphans, exit codes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.lab.children import free_port
from tests.lab.procs import children, ended, stop
from tests.lab.simulator.harness import PATIENCE_S, REFUSED, Simulator, start, until


def listed(pid: int) -> tuple[str, str, int]:
    """Name, command line and resident KiB of a process."""
    folder = Path(f"/proc/{pid}")
    resident = re.search(r"VmRSS:\s+(\d+)", (folder / "status").read_text())
    line = (folder / "cmdline").read_bytes().strip(b"\0").decode()
    return (folder / "comm").read_text().strip(), line, int(resident[1]) if resident else 0


def test_the_port_refuses_until_ready_and_the_log_shows_the_pace(tmp_path: Path) -> None:
    with start(tmp_path, wait=False, SIM_START_S="200") as sim:
        assert until(lambda: "Loading safetensors" in sim.log())
        assert sim.get("/health")[0] == REFUSED
        assert "Application startup complete." not in sim.log()
        assert sim.ready()
        log = sim.log()
    told = ["version 0.32.0", "Initializing a V1 LLM engine (v0.32.0)", "Starting to load model sim...",
            "shards:  50% Completed | 4/8", "Loading weights took", "Model loading took", "Dynamo bytecode transform",
            "torch.compile took", "Available KV cache memory", "GPU KV cache size: 5,895,680 tokens",
            "Graph capturing finished in", "init engine (profile, create kv cache, warmup model) took",
            "Starting vLLM server on", "Application startup complete."]  # fmt: skip
    places = [log.find(text) for text in told]
    assert places == sorted(places)
    assert -1 not in places
    assert re.search(r"^\(APIServer pid=\d+\) INFO \d\d-\d\d \d\d:\d\d:\d\d \[\S+:\d+\] \S", log, re.MULTILINE)
    assert re.search(r"Capturing CUDA graphs \(.+?\):\s+100%", log)
    assert "\rLoading safetensors checkpoint shards:  88% Completed | 7/8" in log


def test_the_processes_are_named_as_vllms_and_small(tmp_path: Path) -> None:
    with start(tmp_path, "-pp", "2", "-tp", "2") as sim:
        (core,) = sim.cores()
        assert listed(sim.process.pid)[0] == "vllm"
        assert listed(core)[:2] == ("VLLM::EngineCor", "VLLM::EngineCore")
        assert [listed(pid)[1] for pid in children(core)] == [
            f"VLLM::Worker_PP{stage}_TP{shard}" for stage in (0, 1) for shard in (0, 1)
        ]
        assert max(listed(pid)[2] for pid in (sim.process.pid, core, *children(core))) < 40_000


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("port", "OSError: [Errno 98] Address already in use"),
        ("bad_path", "HFValidationError: Repo id must be in the form"),
        ("auth", "GatedRepoError: 401 Client Error"),
        ("driver", "The NVIDIA driver on your system is too old"),
        ("arch", "no kernel image is available for execution on the device"),
        ("gpu_busy", "on startup is less than desired GPU memory utilization"),
        ("oom", "CUDA out of memory. Tried to allocate"),
        ("truncated_weights", "Error while deserializing header: incomplete metadata, file not fully covered"),
        ("kv_too_small", "is larger than the available KV cache memory"),
    ],
)
def test_a_failed_start_names_its_cause_and_ends_with_1(tmp_path: Path, name: str, says: str) -> None:
    with start(tmp_path, wait=False, SIM_FAULT=f"start_fail:{name}") as sim:
        assert sim.wait() == 1
        assert says in sim.log()
        assert ("Engine core initialization failed" in sim.log()) == (name not in {"port", "bad_path", "auth"})


def test_a_cache_smaller_than_the_longest_prompt_fails_by_itself(tmp_path: Path) -> None:
    with start(tmp_path, "--max-model-len", "524288", wait=False, SIM_KV_TOKENS="100000") as sim:
        assert sim.wait() == 1
        assert "To serve at least one request with the models's max seq len (524288)" in sim.log()


def test_a_taken_port_ends_with_1(tmp_path: Path) -> None:
    port = free_port()
    with socket.create_server(("0.0.0.0", port)), start(tmp_path, "--port", str(port), wait=False) as sim:
        assert sim.wait() == 1
        assert "OSError: [Errno 98] Address already in use" in sim.log()


@pytest.mark.parametrize(("flags", "fault"), [(["--no-such-flag"], ""), ([], "start_fail:bad_flag")])
def test_a_bad_flag_ends_with_2(tmp_path: Path, flags: list[str], fault: str) -> None:
    with start(tmp_path, *flags, wait=False, SIM_FAULT=fault) as sim:
        assert sim.wait() == 2
        assert "vllm: error: unrecognized arguments: --no-such-flag" in sim.log()


def test_a_stuck_start_is_silent_until_it_is_healed(tmp_path: Path) -> None:
    file = tmp_path / "faults"
    file.write_text("start_stuck:0.5")
    with start(tmp_path, wait=False, SIM_CONTROL_FILE=str(file)) as sim:
        assert until(lambda: "50% Completed" in sim.log())
        before = sim.log()
        assert not until(lambda: sim.log() != before, within=0.4)
        file.write_text("")
        assert sim.ready()


def test_a_slow_start_takes_longer_and_shows_progress(tmp_path: Path) -> None:
    began = time.monotonic()
    with start(tmp_path, SIM_START_S="41", SIM_FAULT="slow_start:3") as sim:
        assert time.monotonic() - began > 1.2
        assert "100% Completed | 8/8" in sim.log()


def test_a_stopped_core_freezes_the_metrics_and_goes_on_later(tmp_path: Path) -> None:
    with start(tmp_path) as sim, sim.client(max_tokens=30_000):
        assert until(lambda: sim.generated() > 0)
        (core,) = sim.cores()
        stop(core)
        assert until(lambda: not moves(sim)), "what the core had said before is counted by now"
        before = sim.generated()
        with sim.client(max_tokens=3):
            assert not until(lambda: sim.generated() > before, within=0.3)
            assert (sim.running(), sim.value("num_requests_waiting"), sim.get("/health")[0]) == (1, 0, 200)
            os.kill(core, signal.SIGCONT)
            assert until(lambda: sim.generated() > before)
        assert sim.generated() - before < 30_000


def moves(sim: Simulator) -> bool:
    """Whether tokens are counted within a moment."""
    before = sim.generated()
    time.sleep(0.2)
    return sim.generated() > before


def test_a_stopped_worker_holds_the_engine_up(tmp_path: Path) -> None:
    with start(tmp_path, "-tp", "2") as sim, sim.client(max_tokens=30_000):
        assert until(lambda: sim.generated() > 0)
        worker = children(sim.cores()[0])[1]
        stop(worker)
        assert until(lambda: "No available shared memory broadcast block found" in sim.log())
        before = sim.generated()
        os.kill(worker, signal.SIGCONT)
        assert until(lambda: sim.generated() > before)


def test_a_killed_worker_ends_the_engine_with_0(tmp_path: Path) -> None:
    with start(tmp_path, "-tp", "2") as sim:
        os.kill(children(sim.cores()[0])[0], signal.SIGKILL)
        assert sim.wait() == 0
        assert "Worker proc VllmWorker-0 died unexpectedly (exit code: -9)" in sim.log()


def test_a_killed_server_leaves_orphans_and_a_free_port(tmp_path: Path) -> None:
    with start(tmp_path, "-tp", "2") as sim, sim.client(max_tokens=9999):
        (core,) = sim.cores()
        family = [core, *children(core)]
        sim.process.kill()
        assert sim.wait() == -9
        assert sim.get("/health")[0] == REFUSED
        assert [pid for pid in family if ended(pid)] == []
        bound = socket.create_server(("0.0.0.0", sim.port))
        bound.close()
        os.kill(core, signal.SIGKILL)
        assert until(lambda: all(ended(pid) for pid in family))
        assert "Parent process exited, terminating worker queues" in sim.log()


def test_sigterm_on_an_idle_server_ends_it_with_0(tmp_path: Path) -> None:
    with start(tmp_path) as sim:
        (core,) = sim.cores()
        sim.process.terminate()
        assert sim.wait() == 0
        assert until(lambda: ended(core))


def test_sigterm_never_ends_a_server_whose_client_holds_on(tmp_path: Path) -> None:
    with start(tmp_path) as sim:
        client = sim.client(max_tokens=30_000)
        assert until(lambda: sim.generated() > 0)
        sim.process.terminate()
        assert until(lambda: sim.get("/health")[0] == REFUSED)
        assert until(lambda: "Waiting for connections to close" in sim.log())
        sim.process.terminate()
        sim.process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            sim.wait(0.4)
        client.close()
        assert sim.wait() == 0


def test_a_drain_lets_requests_finish_and_takes_no_new_ones(tmp_path: Path) -> None:
    # in a slower time: a drain that lasts for seconds
    with start(tmp_path, "--shutdown-timeout", "60", SIM_SCALE="0.1", SIM_START_S="2", SIM_BOOT_S="0.1") as sim:
        with sim.client(max_tokens=1500) as client:
            assert until(lambda: sim.generated() > 0)
            sim.process.terminate()
            assert until(lambda: sim.post("/v1/completions", {"prompt": "x"})[0] == 500)
            assert sim.get("/health")[0] == 200
            data = b""
            while part := client.recv(1 << 16):
                data += part
                if b"[DONE]" in data:
                    break
            assert b'"finish_reason":"length"' in data
        assert sim.wait() == 0


def test_a_start_can_be_interrupted(tmp_path: Path) -> None:
    with start(tmp_path, wait=False, SIM_START_S="1000") as sim:
        assert until(lambda: "Loading safetensors" in sim.log())
        sim.process.terminate()
        assert sim.wait() == 130


def test_a_lost_rank_ends_all_ranks_with_1(tmp_path: Path) -> None:
    with start(tmp_path, "--data-parallel-size", "2", SIM_SCALE="0.3", SIM_START_S="1", SIM_BOOT_S="0.1") as sim:
        first, second = sim.cores()
        assert [listed(pid)[1] for pid in (first, second)] == ["VLLM::EngineCore_DP0", "VLLM::EngineCore_DP1"]
        os.kill(second, signal.SIGKILL)
        assert sim.get("/health")[0] == 200
        assert until(lambda: sim.get("/health")[0] == REFUSED)
        assert sim.wait() == 1
        assert until(lambda: ended(first))


def test_a_request_may_name_its_rank_and_a_stopped_rank_shows_nothing_of_what_it_is_given(tmp_path: Path) -> None:
    """As vLLM 0.32 does it: the header pins, a number out of range is refused, a hung core's gauges stay at 0."""
    with start(tmp_path, "--data-parallel-size", "2", SIM_SCALE="0.3", SIM_START_S="1", SIM_BOOT_S="0.1") as sim:
        assert [answer_of(sim, "1") for _ in range(3)] == [200] * 3
        assert made(sim) == {"0": 0.0, "1": 9.0}
        assert answer_of(sim, "2") == 400
        stop(sim.cores()[1])
        assert answer_of(sim, "1", 1.0) == REFUSED
        assert answer_of(sim, "0") == 200
        assert made(sim) == {"0": 3.0, "1": 9.0}
        gauges = re.findall(r"^vllm:num_requests_(?:running|waiting){.*} (.*)$", sim.get("/metrics")[1], re.MULTILINE)
        assert gauges == ["0.0"] * 4


def answer_of(sim: Simulator, rank: str, timeout: float = PATIENCE_S) -> int:
    """The status of a request that names this rank."""
    headers = {"X-data-parallel-rank": rank}
    return sim.post("/v1/completions", {"prompt": "x", "max_tokens": 3}, timeout, **headers)[0]


def made(sim: Simulator) -> dict[str, float]:
    """Tokens that each rank has made."""
    found = re.findall(r'^vllm:generation_tokens_total{engine="(\d)".*} (.*)$', sim.get("/metrics")[1], re.MULTILINE)
    return {rank: float(tokens) for rank, tokens in found}


def lines(sim: Simulator) -> list[str]:
    """The periodic lines so far."""
    return re.findall(r"Engine 000: (Avg prompt throughput: .*)", sim.log())


def test_the_periodic_line_says_nothing_twice_and_falls_silent(tmp_path: Path) -> None:
    with start(tmp_path) as sim:
        assert sim.post("/v1/completions", {"prompt": "x", "max_tokens": 20})[0] == 200
        assert until(
            lambda: bool(lines(sim)) and lines(sim)[-1].startswith("Avg prompt throughput: 0.0 tokens/s, Avg gen")
        )
        until(lambda: False, within=0.4)
        quiet = [line for line in lines(sim) if "throughput: 0.0 tokens/s, Avg generation throughput: 0.0" in line]
        assert len(quiet) == 1
        assert "Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%" in quiet[0]


def test_the_control_port_answers_before_the_engine_does(tmp_path: Path) -> None:
    port = free_port()
    with start(tmp_path, wait=False, SIM_START_S="300", SIM_CONTROL_PORT=str(port)) as sim:
        apart = Simulator(sim.process, port, sim.log_file)
        assert until(lambda: apart.get("/sim/state")[0] == 200)
        assert sim.get("/health")[0] == REFUSED
        assert sim.ready()
        assert sim.get("/sim/state")[0] == 404
        apart.fault("metrics_404")
        assert sim.get("/metrics")[0] == 404
