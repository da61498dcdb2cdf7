"""SGLang's dialect: metrics that move late, a health that generates, aborts that miss, and death by its own SIGKILL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.procs import stop
from tests.lab.simulator import sglang_flags
from tests.lab.simulator.harness import REFUSED, Simulator, start, until

_FLAGS = ["--enable-metrics", "--context-length", "524288"]


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[Simulator]:
    """An SGLang of the test's own; a long prompt takes it seconds, in which a test can look several times."""
    with start(tmp_path, *_FLAGS, engine="sglang", SIM_PREFILL_TOK_S="1000") as running:
        assert until(lambda: "The server is fired up and ready to roll!" in running.log())
        yield running


def computed(sim: Simulator, mode: str = "prefill_compute") -> float:
    """Realtime tokens of a mode."""
    return sim.value("realtime_tokens_total", mode=mode)


def test_a_lone_prefill_is_neither_running_nor_queued_but_holds_tokens(sim: Simulator) -> None:
    with sim.client(sim_prompt_tokens=400_000, max_tokens=1):
        assert until(lambda: sim.value("num_used_tokens") > 8_000)
        before = computed(sim)
        assert until(lambda: computed(sim) > before)
        assert (sim.value("num_running_reqs"), sim.value("num_queue_reqs")) == (0, 0)
        assert sim.value("prompt_tokens_total") < 100


def test_tokens_are_counted_when_a_request_ends_but_in_real_time_before(sim: Simulator) -> None:
    finished = sim.value("generation_tokens_total")
    with sim.client(max_tokens=20_000):
        assert until(lambda: computed(sim, "decode") > 200)
        assert sim.value("generation_tokens_total") == finished
        assert sim.value("num_running_reqs") == 1
        assert until(lambda: sim.value("generation_tokens_total") == finished + 20_000)


def test_health_takes_a_second_and_fails_when_the_scheduler_hangs(sim: Simulator) -> None:
    asked = time.monotonic()
    assert until(lambda: sim.get("/health")[0] == 200)  # 20 s of patience are a fifth of a second here
    assert time.monotonic() - asked >= 0.01
    (core,) = sim.cores()
    stop(core)
    assert until(lambda: sim.get("/health")[0] == 503)  # once all that it had said before is heard
    assert "Health check failed" in sim.log()
    os.kill(core, signal.SIGCONT)
    assert until(lambda: sim.get("/health")[0] == 200)


def test_the_loads_snapshot_ages_with_a_hang(sim: Simulator) -> None:
    def stamp() -> float:
        return float(json.loads(sim.get("/v1/loads")[1])["loads"][0]["timestamp"])

    first = stamp()
    assert until(lambda: stamp() > first)
    sim.fault("stall_idle")
    assert until(lambda: time.time() - stamp() > 0.3)
    sim.fault("clear")
    assert until(lambda: time.time() - stamp() < 0.2)


def test_a_forgotten_request_goes_on_and_only_abort_all_ends_it(sim: Simulator) -> None:
    sim.fault("zombie_burning")
    sim.client(max_tokens=100_000).close()
    assert until(lambda: "but the state was deleted in TokenizerManager" in sim.log())
    rid = sim.log().split("Received output for rid='")[1].split("'")[0]
    assert sim.post("/abort_request", {"rid": rid})[0] == 200
    before = computed(sim, "decode")
    assert until(lambda: computed(sim, "decode") > before)
    assert sim.post("/abort_request", {"rid": "", "abort_all": True})[0] == 200
    assert until(lambda: sim.value("num_used_tokens") == 0, within=5.0)  # by itself it would end after 17 s


def test_a_stalled_batch_is_ended_by_the_watchdog(tmp_path: Path) -> None:
    with start(tmp_path, *_FLAGS, "--watchdog-timeout", "40", engine="sglang") as sim, sim.client(max_tokens=99_999):
        assert until(lambda: computed(sim, "decode") > 0)
        sim.fault("stall")
        assert sim.wait() == -signal.SIGKILL
        assert "Watchdog timeout (self.watchdog_timeout=40.0)" in sim.log()
        assert "Received sigquit from a child process" in sim.log()


def test_sigterm_drains_without_limit(sim: Simulator) -> None:
    with sim.client(max_tokens=100_000):
        assert until(lambda: computed(sim, "decode") > 0)
        sim.process.terminate()
        assert until(lambda: "Gracefully exiting... Remaining number of requests 1" in sim.log())
        assert sim.get("/health")[0] == 503
        with pytest.raises(subprocess.TimeoutExpired):
            sim.wait(0.3)
    assert sim.wait() == -signal.SIGKILL


def test_metrics_are_there_only_where_they_were_asked_for(tmp_path: Path) -> None:
    with start(tmp_path, engine="sglang") as sim:
        assert sim.get("/metrics")[0] == 404


def test_a_start_shows_its_pace_in_sglangs_words(tmp_path: Path) -> None:
    with start(tmp_path, "--tp", "2", wait=False, engine="sglang", SIM_START_S="60") as sim:
        assert until(lambda: "Load weight begin" in sim.log())
        assert sim.get("/health")[0] == REFUSED
        assert until(lambda: "The server is fired up and ready to roll!" in sim.log())
        told = ["server_args=ServerArgs(model_path='sim'", "TP0] Load weight begin.", "TP0] Load weight end.",
                "KV Cache is allocated", "TP0] max_total_num_tokens=5895680", "Uvicorn running on"]  # fmt: skip
        places = [sim.log().find(text) for text in told]
        assert places == sorted(places)
        assert -1 not in places
        assert "\rMulti-thread loading shards:  50% Completed | 4/8" in sim.log()


def test_a_failed_start_ends_the_whole_tree(tmp_path: Path) -> None:
    with start(tmp_path, wait=False, engine="sglang", SIM_FAULT="start_fail:truncated_weights") as sim:
        assert sim.wait() == -signal.SIGKILL
        assert "Scheduler hit an exception: Traceback" in sim.log()
        assert "incomplete metadata, file not fully covered" in sim.log()


def test_flags_are_read_as_sglang_reads_them(capsys: pytest.CaptureFixture[str]) -> None:
    launch = sglang_flags.parse(["--model", "m", "--tp", "8", "--dp-size", "8", "--enable-dp-attention"])
    assert (launch.tensor_parallel, launch.data_parallel, launch.port) == (8, 1, 30000)
    with pytest.raises(SystemExit) as end:
        sglang_flags.parse(["--model-path", "m", "--no-such-flag"])
    assert end.value.code == 2
    assert "launch_server.py: error: unrecognized arguments: --no-such-flag" in capsys.readouterr().err
