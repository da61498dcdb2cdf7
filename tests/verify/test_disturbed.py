"""`agentctl verify` through the real daemon while the engine, the agent or a person comes in between."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import recipes, traffic
from tests.e2e.rig import PROGRAMS, Rig, running, wait_for
from tests.lab.children import free_port

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(180)]

RATES = {
    "SIM_SCALE": "1",
    "SIM_START_S": "1",
    "SIM_BOOT_S": "0.2",
    "SIM_DECODE_TOK_S": "60",
    "SIM_PREFILL_TOK_S": "4000",
}
POINTS: list[dict[str, Any]] = [
    {"id": 1, "context_len": 4000, "concurrency": 1, "decode_tok_s": 60, "prefill_tok_s": 4000},
    {"id": 2, "context_len": 1, "concurrency": 4, "decode_tok_s": 200},
]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with running(tmp_path_factory.mktemp("disturbed")) as rig:
        yield rig


def deployed(rig: Rig, slug: str, points: Any = POINTS) -> int:
    port = free_port()
    rig.publish(recipes.recipe(slug, port, env=RATES) | {"perf_points": points}, recipes.profile())
    rig.ok("deploy", slug, "--yes", "-q", "--wait=60")
    return port


def work_in(port: int) -> float:
    lines = traffic.get(port, "/metrics")[1].splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("vllm:num_requests_running{"))


@contextmanager
def verifying(rig: Rig, slug: str, port: int, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A verification whose requests run, ended by its own pid if it has not ended."""
    command: list[str | Path] = [PROGRAMS / "agentctl", "verify", slug, "-o", "json", *words]
    with subprocess.Popen(
        command,
        env=rig.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as verify:
        try:
            wait_for(lambda: work_in(port) >= 1, "its requests to run", within=60)
            yield verify
        finally:
            if verify.poll() is None:
                verify.kill()


def why(verify: subprocess.Popen[str], within: float = 40) -> Mapping[str, Any]:
    """The error of one that failed, and no traceback beside it."""
    out, err = verify.communicate(timeout=within)
    assert verify.returncode != 0, out
    assert "Traceback" not in err
    found: dict[str, Any] = json.loads(err)["error"]
    return found


def no_traceback(rig: Rig) -> None:
    assert "Traceback" not in rig.log.read_text()


def test_the_engine_dies_midway(host: Rig) -> None:
    """It is started anew, and its second life is not measured as if it were the first."""
    port = deployed(host, "dies")
    with verifying(host, "dies", port) as verify:
        os.kill(traffic.cores(port)[0], signal.SIGKILL)
        assert "cannot verify dies" in why(verify)["message"]
    host.until("dies", "ready", within=40)
    assert host.ctl("verify", "dies", "--last").code == 4
    assert host.value("recipe_agent_claim_ratio", recipe="dies") is None
    assert host.ok("verify", "dies", "--quick", "--points", "c4", "-o", "json").json["rows"][0]["ratio"]
    host.ok("remove", "dies")
    no_traceback(host)


@pytest.mark.parametrize("word", ["remove", "stop", "restart"])
def test_a_person_takes_the_engine_away_midway(host: Rig, word: str) -> None:
    slug = f"by-{word}"
    port = deployed(host, slug)
    with verifying(host, slug, port) as verify:
        host.ok(word, slug, timeout=60)
        assert why(verify)["code"] == "operation.failed"
    if word != "remove":
        assert host.ctl("verify", slug, "--last").code == 4
        host.ok("remove", slug)
    assert host.value("recipe_agent_claim_ratio", recipe=slug) is None
    no_traceback(host)


def test_the_agent_is_killed_midway(tmp_path: Path) -> None:
    """Nothing of it runs on, its command says so, and the next agent knows that it did not end."""
    with running(tmp_path) as rig:
        port = deployed(rig, "killed")
        with verifying(rig, "killed", port) as verify:
            rig.kill()
            assert why(verify)["code"]
        wait_for(lambda: work_in(port) == 0, "the engine to be idle", within=10)
        rig.start()
        rig.until("killed", "ready", within=30)
        (operation,) = [one for one in rig.api("/v1/operations") if one["kind"] == "verify"]
        assert operation["state"] == "failed"
        assert "restarted" in operation["error"]["message"]
        assert rig.ctl("verify", "killed", "--quick", "--points", "c4").code == 0


def test_a_second_one_is_refused_and_the_first_goes_on(host: Rig) -> None:
    port = deployed(host, "twice")
    with verifying(host, "twice", port, "--quick", "--points", "c4") as verify:
        second = host.ctl("verify", "twice", "-o", "json")
        assert (second.code, second.error["code"]) == (3, "verify.refused")
        out, _ = verify.communicate(timeout=60)
        assert verify.returncode == 0
        assert json.loads(out)["rows"][0]["ratio"]
    host.ok("remove", "twice")


def test_short_requests_of_others_that_come_and_go_are_seen(host: Rig) -> None:
    """Each is over before anybody looks; the engine's own counters tell of them."""
    port = deployed(host, "visited")
    over = threading.Event()

    def visit() -> None:
        while not over.is_set():
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
                body = {"model": "sim", "sim_prompt_tokens": 400, "max_tokens": 3, "ignore_eos": True}
                connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
                connection.getresponse().read()
            over.wait(0.3)

    visitor = threading.Thread(target=visit)
    visitor.start()
    try:
        report = host.ok("verify", "visited", "--quick", "--points", "decode c1", "-o", "json").json
    finally:
        over.set()
        visitor.join()
    for row in report["rows"]:
        assert row["measured"] is None, row
        assert "others" in row["dropped"]
    host.ok("remove", "visited")


def test_claims_that_nobody_could_mean_cost_nothing(host: Rig) -> None:
    """Beside them, the one that can be measured is."""
    odd: list[Any] = [
        {"id": 1, "context_len": 1, "concurrency": 1, "decode_tok_s": 60},
        {"id": 1, "context_len": 1, "concurrency": 1, "decode_tok_s": "60"},
        {"id": 1, "context_len": 1, "concurrency": 10**6, "decode_tok_s": 60},
        {"id": 2, "context_len": -5, "concurrency": -1, "decode_tok_s": -60},
        {"id": 2, "context_len": 0, "concurrency": 0, "decode_tok_s": 0},
        {"id": 3, "context_len": 10**9, "concurrency": 2, "decode_tok_s": 1e308},
        {"id": 4, "context_len": "many", "concurrency": [1], "decode_tok_s": {"a": 1}},
        {"id": 5, "context_len": float("nan"), "concurrency": 1, "decode_tok_s": float("nan")},
        None, 7, "point",
        *({"id": 6, "context_len": 600_000 + number, "concurrency": 1, "decode_tok_s": 5} for number in range(20_000)),
    ]  # fmt: skip
    deployed(host, "odd", odd)
    began = time.monotonic()
    report = host.ok("verify", "odd", "-o", "json", timeout=80).json
    measured = [row for row in report["rows"] if row["measured"] is not None]
    assert [row["point"] for row in measured] == ["decode c1"]
    assert 0.5 <= measured[0]["ratio"] <= 1.1
    assert len(report["left_out"]) <= 201
    assert time.monotonic() - began < 70
    host.ok("remove", "odd")
    no_traceback(host)
